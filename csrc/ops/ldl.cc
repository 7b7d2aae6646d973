// Symmetric and Hermitian indefinite matrices as L D L^T, with pivots of one or two rows chosen as Bunch and Kaufman
// do. Each matrix of a batch goes its own way; what stands at its place is found by masks.
#include <cmath>

#include "ops/families.h"
#include "ops/pivoting.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

Value mirrored(Builder& b, Value x, bool hermitian) { return hermitian ? conjugate(b, x) : x; }
Value on_diagonal(Builder& b, Value x, bool hermitian) { return hermitian ? b.convert(b.real(x), x.dtype()) : x; }

Value exchanged_on_both_sides(Builder& b, Value x, Value k, Value p) {
  return transposed(b, exchanged(b, transposed(b, exchanged(b, x, k, p)), k, p));
}

struct Choice {
  Value pivot, two, singular;  // the row that comes to the last row of the block; whether that has two rows
};
Choice choose(Builder& b, Value m, Value k, bool hermitian) {
  const double alpha = (1 + std::sqrt(17)) / 8;
  const Dims vector{m.dim(0), m.dim(1)};
  const Value place = b.iota(DType::kS32, vector, 1), at_k = per_batch(b, k, vector);
  const auto size = [&](Value x) { return magnitude(b, on_diagonal(b, x, hermitian)); };
  const auto share = [&](Value x) { return b.mul(x, b.scalar(alpha, x.dtype())); };
  const Value column = taken(b, m, k, 2), head = size(taken(b, column, k, 1));
  const Value none = b.scalar(-1, head.dtype()), zero = b.zeros_like(head);
  const Largest below = first_largest(b, b.select(b.gt(place, at_k), magnitude(b, column), none));
  const Value in_column = b.max(below.value, zero);
  const Value row = taken(b, m, below.index, 1), other = size(taken(b, row, below.index, 1));
  const Value beside = b.and_(b.ge(place, at_k), b.ne(place, per_batch(b, below.index, vector)));
  const Value in_row = b.reduce(Reduce::kMax, b.select(beside, magnitude(b, row), none), {1});
  const Value singular = b.or_(b.eq(b.max(head, in_column), zero), b.is_nan(head));
  const Value large =
      b.or_(b.ge(head, share(in_column)), b.ge(head, b.mul(share(in_column), b.div(in_column, in_row))));
  const Value stays = b.or_(singular, large);
  return {b.select(stays, k, below.index), b.not_(b.or_(stays, b.ge(other, share(in_row)))), singular};
}

struct Ldl {
  Value ld, pivots, info;
};
Ldl factorize(Builder& b, Value a, bool hermitian) {
  const int64_t batch = a.dim(0), n = a.dim(1);
  const Dims vector{batch, n}, square{batch, n, n};
  const Value lower = lower_triangle(b, a, -1);
  const Value diagonal_of_a = b.select(b.eq(b.iota(DType::kS32, square, 1), b.iota(DType::kS32, square, 2)),
                                       on_diagonal(b, a, hermitian), b.scalar(0, a.dtype()));
  const Value whole = b.add(b.add(lower, mirrored(b, transposed(b, lower), hermitian)), diagonal_of_a);
  const Value nothing = b.full(0, DType::kS32, {batch});
  const Values done = b.while_(
      {nothing, whole, b.zeros({a.dtype(), square}), b.full(0, DType::kS32, vector), nothing},
      [&](const Values& s) { return Values{b.reduce(Reduce::kOr, b.lt(s[0], int32(b, n)), {0})}; },
      [&](const Values& s) {
        const Value k = s[0], after = b.add(k, int32(b, 1));
        const Choice c = choose(b, s[1], k, hermitian);
        const Value width = b.convert(c.two, DType::kS32), last = b.add(k, width), next = b.add(last, int32(b, 1));
        const Value m = exchanged_on_both_sides(b, s[1], last, c.pivot);
        const auto in = [&](Value v, const Dims& dims) { return per_batch(b, v, dims); };
        const auto beside = [&](Value v, int64_t dim) { return b.broadcast_in_dim(v, square, {0, dim}); };
        const auto outer = [&](Value x, Value y) { return b.mul(beside(x, 1), beside(mirrored(b, y, hermitian), 2)); };
        const Value first = taken(b, m, k, 2), second = taken(b, m, after, 2);
        const Value a00 = on_diagonal(b, taken(b, first, k, 1), hermitian), a10 = taken(b, first, after, 1);
        const Value a11 = on_diagonal(b, taken(b, second, after, 1), hermitian);

        // A block of one row
        const Value one = b.full_like(a00, 1);
        const Value by_one = b.div(first, in(b.select(c.singular, one, a00), vector));
        // A block of two; its numbers divided by the size of those off the diagonal
        const Value size = b.select(c.two, b.convert(b.abs(a10), a.dtype()), one);
        const Value d00 = b.div(a00, size), d11 = b.div(a11, size), d10 = b.div(a10, size);
        const Value d01 = mirrored(b, d10, hermitian);
        const Value inverse = b.div(one, b.mul(size, b.sub(b.mul(d00, d11), b.mul(d10, d01))));
        const auto mixed = [&](Value x, Value of_first, Value y, Value of_second) {
          const auto times = [&](Value v, Value by) { return b.mul(v, in(b.mul(by, inverse), vector)); };
          return b.sub(times(x, of_first), times(y, of_second));
        };
        const Value by_two = mixed(first, d11, second, d10), by_two_after = mixed(second, d00, first, d01);

        const Value row = b.iota(DType::kS32, vector, 1), two = in(c.two, vector);
        const Value beyond = b.gt(row, in(last, vector));
        const Value touched = b.and_(b.and_(beside(beyond, 1), beside(beyond, 2)), b.not_(in(c.singular, square)));
        const Value update =
            b.select(in(c.two, square), b.add(outer(by_two, first), outer(by_two_after, second)), outer(by_one, first));
        const Value rest = b.select(touched, b.sub(m, update), m);

        const Value at_k = b.eq(row, in(k, vector)), at_after = b.and_(two, b.eq(row, in(after, vector)));
        const Value zero = b.scalar(0, a.dtype());
        const Value column =
            b.select(at_k, in(a00, vector),
                     b.select(at_after, in(a10, vector), b.select(beyond, b.select(two, by_two, by_one), zero)));
        const Value column_after = b.select(at_after, in(a11, vector), b.select(beyond, by_two_after, zero));
        const Value ld =
            b.select(beside(at_k, 2), beside(column, 1), b.select(beside(at_after, 2), beside(column_after, 1), s[2]));
        const Value number = b.add(c.pivot, int32(b, 1));
        const Value pivot = in(b.select(c.two, b.neg(number), number), vector);
        const Value failed = b.and_(b.and_(c.singular, b.lt(k, int32(b, n))), b.eq(s[4], int32(b, 0)));
        return Values{next, rest, ld, b.select(b.or_(at_k, at_after), pivot, s[3]), b.select(failed, after, s[4])};
      });
  return {done[2], done[3], done[4]};
}

// Moved by one place along dimension 1, towards its start or its end.
Value from_next(Builder& b, Value v) {
  const Dims none(v.dims().size(), 0);
  Dims by = none;
  by[1] = 1;
  return b.pad(b.slice_dim(v, 1, 1, v.dim(1)), b.scalar(0, v.dtype()), none, by);
}
Value from_previous(Builder& b, Value v) {
  const Dims none(v.dims().size(), 0);
  Dims by = none;
  by[1] = 1;
  return b.pad(b.slice_dim(v, 1, 0, v.dim(1) - 1), b.scalar(0, v.dtype()), by, none);
}

// Which places begin a block of two: negative pivots come in pairs.
Value begins_two(Builder& b, Value pivots) {
  const Value place = b.iota(DType::kS32, pivots.dims(), 1), negative = b.lt(pivots, int32(b, 0));
  const Value before = b.cumulative(Reduce::kMax, b.select(negative, int32(b, -1), place), 1);
  const Value odd = b.eq(b.rem(b.sub(place, before), int32(b, 2)), int32(b, 1));
  return b.and_(negative, odd);
}

// x with L D L^T x = y, all [batch, n, ...].
Value solve(Builder& b, Value ld, Value pivots, Value y, bool hermitian) {
  const int64_t batch = ld.dim(0), n = ld.dim(1);
  const Dims square = ld.dims();
  const Value begins = begins_two(b, pivots), zero = b.scalar(0, ld.dtype());
  const Value row = b.iota(DType::kS32, square, 1), column = b.iota(DType::kS32, square, 2);
  const Value next_row = b.eq(row, b.add(column, int32(b, 1)));
  const Value in_block = b.and_(next_row, b.broadcast_in_dim(begins, square, {0, 2}));
  const Value l = b.select(b.and_(b.gt(row, column), b.not_(in_block)), ld, zero);
  const Value off_diagonal = b.reduce(Reduce::kAdd, b.select(in_block, ld, zero), {1});

  // What each step exchanges; nothing in the second step of a block.
  const Value place = b.iota(DType::kS32, pivots.dims(), 1), positive = b.gt(pivots, int32(b, 0));
  const Value from = b.add(place, b.convert(begins, DType::kS32));
  const Value to =
      b.select(b.or_(positive, begins), b.sub(b.select(positive, pivots, b.neg(pivots)), int32(b, 1)), from);
  const auto at = [&](Value v, Value i) {
    return b.reshape(b.dynamic_slice(v, {int32(b, 0), i}, {batch, 1}), {batch});
  };
  const auto exchange = [&](Value x, Value i) { return exchanged(b, x, at(from, i), at(to, i)); };
  const auto column_of_l = [&](Value i) {
    const Value zeroth = int32(b, 0);
    return b.broadcast_in_dim(b.reshape(b.dynamic_slice(l, {zeroth, zeroth, i}, {batch, n, 1}), {batch, n}), y.dims(),
                              {0, 1});
  };
  const Value lowered = b.while_(
      {int32(b, 0), y}, [&](const Values& s) { return Values{b.lt(s[0], int32(b, n))}; },
      [&](const Values& s) {
        const Value x = exchange(s[1], s[0]), zeroth = int32(b, 0);
        const Value head =
            b.reshape(b.dynamic_slice(x, {zeroth, s[0], zeroth}, {batch, 1, y.dim(2)}), {batch, y.dim(2)});
        const Value update = b.mul(column_of_l(s[0]), b.broadcast_in_dim(head, y.dims(), {0, 2}));
        return Values{b.add(s[0], int32(b, 1)), b.sub(x, update)};
      })[1];

  const auto wide = [&](Value v) { return b.broadcast_in_dim(v, y.dims(), {0, 1}); };
  const Value one = b.scalar(1, ld.dtype()), d = on_diagonal(b, diagonal(b, ld), hermitian);
  const Value size = b.select(begins, b.convert(b.abs(off_diagonal), ld.dtype()), one);
  const Value d00 = b.div(d, size), d11 = b.div(from_next(b, d), size), d10 = b.div(off_diagonal, size);
  const Value d01 = mirrored(b, d10, hermitian), below = from_next(b, lowered);
  const Value scale = b.mul(size, b.sub(b.mul(d00, d11), b.mul(d10, d01)));
  const auto divided = [&](Value v) { return b.div(v, wide(scale)); };
  const Value upper = divided(b.sub(b.mul(wide(d11), lowered), b.mul(wide(d01), below)));
  const Value ends = from_previous(b, divided(b.sub(b.mul(wide(d00), below), b.mul(wide(d10), lowered))));
  const Value scaled = b.select(wide(begins), upper, b.select(wide(positive), b.div(lowered, wide(d)), ends));

  return b.while_(
      {int32(b, n - 1), scaled}, [&](const Values& s) { return Values{b.ge(s[0], int32(b, 0))}; },
      [&](const Values& s) {
        const Value sum = b.reduce(Reduce::kAdd, b.mul(mirrored(b, column_of_l(s[0]), hermitian), s[1]), {1});
        const Value here = b.eq(b.iota(DType::kS32, y.dims(), 1), s[0]);
        const Value x = b.select(here, b.sub(s[1], b.broadcast_in_dim(sum, y.dims(), {0, 2})), s[1]);
        return Values{b.sub(s[0], int32(b, 1)), exchange(x, s[0])};
      })[1];
}

}  // namespace

void add_ldl(Table& ops) {
  ops.add("linalg_ldl_factor_ex", plain, [](Builder& b, const Call& call, Value a, bool hermitian, bool) {
    if (a.numel() == 0) return Values{b.zeros(*call.results[0]), b.zeros(*call.results[1]), b.zeros(*call.results[2])};
    const Ldl f = factorize(b, batched(b, a), hermitian && is_complex(a.dtype()));
    return Values{b.reshape(f.ld, a.dims()), b.reshape(f.pivots, call.results[1]->dims),
                  b.reshape(f.info, call.results[2]->dims)};
  });
  ops.add("linalg_ldl_solve", plain, [](Builder& b, const Call& call, Value ld, Value pivots, Value y, bool hermitian) {
    const Dims& dims = call.results[0]->dims;
    if (call.results[0]->numel() == 0) return b.zeros(*call.results[0]);
    const Dims batch = batch_of(dims);
    Dims pivot_dims = batch;
    pivot_dims.push_back(pivots.dim(-1));
    const Value matrix = batched(b, over_batch(b, ld, batch));
    const Value order = b.reshape(b.broadcast_to(pivots, pivot_dims), {matrix.dim(0), matrix.dim(1)});
    const Value right = batched(b, over_batch(b, y, batch));
    return b.reshape(solve(b, matrix, b.convert(order, DType::kS32), right, hermitian && is_complex(ld.dtype())), dims);
  });
}

}  // namespace tpu::ops
