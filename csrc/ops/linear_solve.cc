// LU with partial pivoting, and what rests on it: solve, inverse, determinants. The factorization is a loop over the
// columns on a batch [batch, rows, columns]; all of a step is masked whole-matrix arithmetic.
#include <algorithm>

#include "ops/families.h"
#include "ops/pivoting.h"
#include "ops/triangles.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

struct Lu {
  Value lu, pivots, order, info;  // [batch, m, n]; from 1; row i of the permuted matrix is row order[i]; as LAPACK's
};

Lu factorize(Builder& b, Value a, bool pivot) {
  const int64_t batch = a.dim(0), m = a.dim(1), n = a.dim(2), steps = std::min(m, n);
  const Value order = b.iota(DType::kS32, {batch, m}, 1);
  const Value info = b.full(0, DType::kS32, {batch}), pivots = b.full(0, DType::kS32, {batch, steps});
  const Values done = b.while_(
      {int32(b, 0), a, pivots, order, info}, [&](const Values& s) { return Values{b.lt(s[0], int32(b, steps))}; },
      [&](const Values& s) {
        const Value k = s[0], zero = int32(b, 0);
        const auto column_of = [&](Value x) {
          return b.reshape(b.dynamic_slice(x, {zero, zero, k}, {batch, m, 1}), {batch, m});
        };
        Value p = b.broadcast_to(k, {batch});
        if (pivot) {
          const Value rows = b.iota(DType::kS32, {batch, m}, 1), size = magnitude(b, column_of(s[1]));
          p = first_largest(b, b.select(b.ge(rows, k), size, b.scalar(-1, size.dtype()))).index;
        }
        const Value x = exchanged(b, s[1], k, p), column = column_of(x);
        const Value pivot_row = b.reshape(b.dynamic_slice(x, {zero, k, zero}, {batch, 1, n}), {batch, n});
        const Value head = b.reshape(b.dynamic_slice(pivot_row, {zero, k}, {batch, 1}), {batch});
        const Value singular = b.eq(head, b.scalar(0, head.dtype()));
        const Value below = b.gt(b.iota(DType::kS32, {batch, m}, 1), k);
        const Value safe = b.select(singular, b.scalar(1, head.dtype()), head);
        const Value factors = b.select(below, b.div(column, per_batch(b, safe, column.dims())), b.scalar(0, x.dtype()));
        const Value right = b.gt(b.iota(DType::kS32, {batch, n}, 1), k);
        const Value rest = b.select(right, pivot_row, b.scalar(0, x.dtype()));
        const auto beside = [&](Value v, int64_t dim) { return b.broadcast_in_dim(v, x.dims(), {0, dim}); };
        const Value update = b.mul(beside(factors, 1), beside(rest, 2));
        const Value in_column = b.and_(beside(below, 1), b.eq(b.iota(DType::kS32, x.dims(), 2), k));
        const Value touched = b.and_(beside(below, 1), beside(right, 2));
        const Value next = b.select(in_column, beside(factors, 1), b.select(touched, b.sub(x, update), x));
        const Value at_k = b.eq(b.iota(DType::kS32, {batch, steps}, 1), k);
        const Value new_pivots = b.select(at_k, per_batch(b, b.add(p, int32(b, 1)), s[2].dims()), s[2]);
        const Value first = b.and_(singular, b.eq(s[4], zero));
        return Values{b.add(k, int32(b, 1)), next, new_pivots, exchanged(b, s[3], k, p),
                      b.select(first, b.add(k, int32(b, 1)), s[4])};
      });
  return {done[1], done[2], done[3], done[4]};
}

// The order of rows that exchanges in turn lead to.
Value order_of(Builder& b, Value pivots, int64_t rows) {
  const int64_t batch = pivots.dim(0), steps = pivots.dim(1);
  return b.while_(
      {int32(b, 0), b.iota(DType::kS32, {batch, rows}, 1), pivots},
      [&](const Values& s) { return Values{b.lt(s[0], int32(b, steps))}; },
      [&](const Values& s) {
        const Value p = b.reshape(b.dynamic_slice(s[2], {int32(b, 0), s[0]}, {batch, 1}), {batch});
        return Values{b.add(s[0], int32(b, 1)), exchanged(b, s[1], s[0], b.sub(p, int32(b, 1))), s[2]};
      })[1];
}

// P with P[order[i], i] = 1: the matrix is P times L times U.
Value permutation(Builder& b, Value order, DType dtype) {
  const int64_t batch = order.dim(0), m = order.dim(1);
  const Dims dims = {batch, m, m};
  const Value hit = b.eq(b.iota(DType::kS32, dims, 1), b.broadcast_in_dim(order, dims, {0, 2}));
  return b.convert(hit, dtype);
}

// Row i is row order[i] of x.
Value permuted(Builder& b, Value x, Value order) {
  const int64_t batch = x.dim(0), m = x.dim(1);
  return b.gather(x, b.reshape(order, {batch, m, 1}),
                  {.offset = {2},
                   .collapsed = {1},
                   .operand_batching = {0},
                   .indices_batching = {0},
                   .start_index_map = {1},
                   .index_vector_dim = 2},
                  {1, 1, x.dim(2)});
}

// x with a x = y, or a^H x = y; `order` is that of the factorization.
Value solve(Builder& b, Value lu, Value order, Value y, bool adjoint_of_a) {
  if (!adjoint_of_a) {
    y = permuted(b, y, order);
    y = b.triangular_solve(lu, y, true, true, true, 'N');
    return b.triangular_solve(lu, y, true, false, false, 'N');
  }
  y = b.triangular_solve(lu, y, true, false, false, 'C');
  y = b.triangular_solve(lu, y, true, true, true, 'C');
  // Row order[i] is row i.
  const Value p = permutation(b, order, DType::kS32);
  const Value rows = b.broadcast_in_dim(b.iota(DType::kS32, order.dims(), 1), p.dims(), {0, 2});
  return permuted(b, y, b.reduce(Reduce::kAdd, b.mul(p, rows), {2}));
}

struct Factors {
  Lu f;
  Value lu, pivots, info;  // in the shapes that PyTorch returns
  Factors(Builder& b, Value a, bool pivot = true) : f(factorize(b, batched(b, a), pivot)) {
    Dims batch = batch_of(a.dims()), steps = batch;
    steps.push_back(std::min(a.dim(-1), a.dim(-2)));
    lu = b.reshape(f.lu, a.dims()), pivots = b.reshape(f.pivots, steps), info = b.reshape(f.info, batch);
  }
};

// The sign of the permutation, in `dtype`, a number a matrix.
Value parity(Builder& b, Value pivots, DType dtype) {
  const Value self = b.add(b.iota(DType::kS32, pivots.dims(), pivots.rank() - 1), int32(b, 1));
  const Value moved = b.convert(b.ne(pivots, self), DType::kS32);
  const Value odd = b.rem(b.reduce(Reduce::kAdd, moved, {pivots.rank() - 1}), int32(b, 2));
  return b.convert(b.sub(int32(b, 1), b.mul(odd, int32(b, 2))), dtype);
}

Values zeros(Builder& b, const Call& call) {
  Values all;
  for (const hlo::Type* type : call.results) all.push_back(b.zeros(*type));
  return all;
}

}  // namespace

void add_linear_solve(Table& ops) {
  ops.add("linalg_lu_factor_ex", plain, [](Builder& b, const Call& call, Value a, bool pivot, bool) {
    if (a.numel() == 0) return zeros(b, call);
    const Factors f(b, a, pivot);
    return Values{f.lu, f.pivots, f.info};
  });
  ops.add("linalg_lu", plain, [](Builder& b, const Call& call, Value a, bool pivot) {
    if (a.numel() == 0) return zeros(b, call);
    const Factors f(b, a, pivot);
    const int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
    const Value lu = f.f.lu, below = lower_triangle(b, b.slice_dim(lu, 2, 0, k), -1);
    const Value l = b.add(below, identity_like(b, below)), u = upper_triangle(b, b.slice_dim(lu, 1, 0, k));
    Values out;
    if (pivot) {
      out.push_back(b.reshape(permutation(b, f.f.order, a.dtype()), call.results[0]->dims));
    } else {
      out.push_back(b.zeros(*call.results[0]));
    }
    out.push_back(b.reshape(l, call.results[1]->dims));
    out.push_back(b.reshape(u, call.results[2]->dims));
    return out;
  });
  ops.add("lu_unpack", plain, [](Builder& b, const Call& call, Value lu, Value pivots, bool data, bool with_pivots) {
    Values out = zeros(b, call);
    if (lu.numel() == 0) return out;
    const int64_t m = lu.dim(-2), n = lu.dim(-1), k = std::min(m, n);
    const Value x = batched(b, lu);
    if (with_pivots) {
      const Value order = order_of(b, b.reshape(pivots, {x.dim(0), k}), m);
      out[0] = b.reshape(permutation(b, order, lu.dtype()), call.results[0]->dims);
    }
    if (data) {
      const Value below = lower_triangle(b, b.slice_dim(x, 2, 0, k), -1);
      out[1] = b.reshape(b.add(below, identity_like(b, below)), call.results[1]->dims);
      out[2] = b.reshape(upper_triangle(b, b.slice_dim(x, 1, 0, k)), call.results[2]->dims);
    }
    return out;
  });
  ops.add("linalg_lu_solve", plain,
          [](Builder& b, const Call& call, Value lu, Value pivots, Value y, bool left, bool adjoint_of_a) {
            const Dims& dims = call.results[0]->dims;
            if (call.results[0]->numel() == 0) return b.zeros(*call.results[0]);
            const Dims batch = batch_of(dims);
            Dims pivot_dims = batch;
            pivot_dims.push_back(pivots.dim(-1));
            const Value f = batched(b, over_batch(b, lu, batch));
            const Value order =
                order_of(b, b.reshape(b.broadcast_to(pivots, pivot_dims), {f.dim(0), f.dim(1)}), f.dim(1));
            Value right = batched(b, over_batch(b, y, batch));
            // x a = y is a^H x^H = y^H.
            if (!left) right = adjoint(b, right);
            const Value x = solve(b, f, order, right, adjoint_of_a != !left);
            return b.reshape(left ? x : adjoint(b, x), dims);
          });
  ops.add("_linalg_solve_ex", contraction, [](Builder& b, const Call& call, Value a, Value y, bool left, bool) {
    if (a.numel() == 0) return zeros(b, call);
    const Factors f(b, a);
    const Dims& dims = call.results[0]->dims;
    const bool vector = static_cast<int64_t>(dims.size()) == a.rank() - 1;
    Dims full = dims;
    if (vector) full.push_back(1);
    if (call.results[0]->numel() == 0) return Values{b.zeros(*call.results[0]), f.lu, f.pivots, f.info};
    const Dims batch = batch_of(full);
    const Value matrix = vector ? b.reshape(y, with_matrix({y.dims().begin(), y.dims().end() - 1}, y.dim(-1), 1)) : y;
    Value right = batched(b, over_batch(b, matrix, batch));
    Dims order_dims = batch;
    order_dims.push_back(a.dim(-1));
    Dims of_a = batch_of(a.dims());
    of_a.push_back(a.dim(-1));
    const Value order = b.reshape(b.broadcast_to(b.reshape(f.f.order, of_a), order_dims), {right.dim(0), a.dim(-1)});
    const Value lu = batched(b, over_batch(b, f.lu, batch));
    if (!left) right = adjoint(b, right);
    const Value x = solve(b, lu, order, right, !left);
    return Values{b.reshape(left ? x : adjoint(b, x), dims), f.lu, f.pivots, f.info};
  });
  ops.add("linalg_inv_ex", plain, [](Builder& b, const Call& call, Value a, bool) {
    if (a.numel() == 0) return zeros(b, call);
    const Factors f(b, a);
    const Value x = solve(b, f.f.lu, f.f.order, identity_like(b, f.f.lu), false);
    return Values{b.reshape(x, a.dims()), f.info};
  });
  ops.add("_linalg_det", plain, [](Builder& b, const Call& call, Value a) {
    if (a.dim(-1) == 0 || a.numel() == 0) {
      Values out = zeros(b, call);
      out[0] = b.full(1, out[0].dtype(), out[0].dims());
      return out;
    }
    const Factors f(b, a);
    const Value product = b.reduce(Reduce::kMul, diagonal(b, f.lu), {a.rank() - 2});
    return Values{b.mul(product, parity(b, f.pivots, a.dtype())), f.lu, f.pivots};
  });
  ops.add("_linalg_slogdet", plain, [](Builder& b, const Call& call, Value a) {
    if (a.dim(-1) == 0 || a.numel() == 0) {
      Values out = zeros(b, call);
      out[0] = b.full(1, out[0].dtype(), out[0].dims());
      return out;
    }
    const Factors f(b, a);
    const Value d = diagonal(b, f.lu), size = b.abs(d);
    const Dims last = {d.rank() - 1};
    const Value sign = b.mul(b.reduce(Reduce::kMul, b.sign(d), last), parity(b, f.pivots, a.dtype()));
    return Values{sign, b.reduce(Reduce::kAdd, b.log(size), last), f.lu, f.pivots};
  });
}

}  // namespace tpu::ops
