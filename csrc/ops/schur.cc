// Householder's reduction to a Hessenberg matrix, then Francis' QR steps, of two shifts or one if complex. Shifts and
// deflations are LAPACK's, so that eigenvalues mostly come in its order.
#include "ops/schur.h"

#include <algorithm>

namespace tpu::ops {
namespace {

using hlo::Reduce;

// I - scale v v^H, which sends x [batch, m] to a multiple of the place where `head` is; nothing where x is one already.
struct Reflector {
  Value v, scale;
  Reflector(Builder& b, Value x, Value head, Value active) {
    const Value largest = b.reduce(Reduce::kMax, b.abs(x), {1}), none = b.zeros_like(largest);
    const Value size = b.select(b.gt(largest, none), largest, b.full_like(largest, 1)), zero = b.scalar(0, x.dtype());
    x = b.div(x, per_batch(b, like(b, size, x), x.dims()));
    const Value first = b.reduce(Reduce::kAdd, b.select(head, x, zero), {1});
    const Value tail = b.reduce(Reduce::kAdd, squares(b, b.select(head, zero, x)), {1});
    const Value length = b.sqrt(b.add(squares(b, first), tail));
    const Value phase = b.select(b.eq(first, zero), b.scalar(1, x.dtype()), b.sign(first));
    v = b.add(x, b.select(head, per_batch(b, b.mul(phase, like(b, length, x)), x.dims()), zero));
    const Value turns = b.and_(active, b.gt(tail, none));
    const Value norm = b.select(turns, b.reduce(Reduce::kAdd, squares(b, v), {1}), b.full_like(tail, 1));
    scale = like(b, b.select(turns, b.div(b.full_like(norm, 2), norm), none), x);
  }

  // On the rows of x [batch, m, n], or the columns of x [batch, n, m].
  Value on_rows(Builder& b, Value x) const {
    const Value wide = b.broadcast_in_dim(v, x.dims(), {0, 1});
    const Value sum = b.reduce(Reduce::kAdd, b.mul(conjugate(b, wide), x), {1});
    const Value scaled = b.mul(sum, per_batch(b, scale, sum.dims()));
    return b.sub(x, b.mul(wide, b.broadcast_in_dim(scaled, x.dims(), {0, 2})));
  }
  Value on_columns(Builder& b, Value x) const {
    const Value wide = b.broadcast_in_dim(v, x.dims(), {0, 2});
    const Value sum = b.reduce(Reduce::kAdd, b.mul(x, wide), {2});
    const Value scaled = b.mul(sum, per_batch(b, scale, sum.dims()));
    return b.sub(x, b.mul(b.broadcast_in_dim(scaled, x.dims(), {0, 1}), conjugate(b, wide)));
  }
};

Similar hessenberg(Builder& b, Value a) {
  const int64_t batch = a.dim(0), n = a.dim(1);
  const Value all = b.full(1, DType::kBool, {batch});
  const Values done = b.while_(
      {int32(b, 0), a, identity_like(b, a)}, [&](const Values& s) { return Values{b.lt(s[0], int32(b, n - 2))}; },
      [&](const Values& s) {
        const Value k = s[0], after = b.add(k, int32(b, 1)), zeroth = int32(b, 0);
        const Value place = b.iota(DType::kS32, {batch, n}, 1), zero = b.scalar(0, a.dtype());
        const Value column = b.reshape(b.dynamic_slice(s[1], {zeroth, zeroth, k}, {batch, n, 1}), {batch, n});
        const Reflector r(b, b.select(b.gt(place, k), column, zero), b.eq(place, after), all);
        const Value h = r.on_columns(b, r.on_rows(b, s[1]));
        const Value gone =
            b.and_(b.gt(b.iota(DType::kS32, a.dims(), 1), after), b.eq(b.iota(DType::kS32, a.dims(), 2), k));
        return Values{after, b.select(gone, zero, h), r.on_columns(b, s[2])};
      });
  return {done[1], done[2]};
}

// The lines `at` and `at` + 1 of dimension `dim` of x, mixed, where `active`.
struct Mix {
  Value first_of_first, second_of_first, first_of_second, second_of_second;
};
Value mixed(Builder& b, Value x, int64_t dim, Value at, Value active, const Mix& by) {
  const Value after = b.add(at, int32(b, 1)), first = taken(b, x, at, dim), second = taken(b, x, after, dim);
  const auto sum = [&](Value p, Value q) {
    const auto times = [&](Value v, Value factor) { return b.mul(v, per_batch(b, factor, v.dims())); };
    return b.broadcast_in_dim(b.add(times(first, p), times(second, q)), x.dims(), {0, 3 - dim});
  };
  const auto is = [&](Value place) {
    return b.and_(b.eq(b.iota(DType::kS32, x.dims(), dim), per_batch(b, place, x.dims())),
                  per_batch(b, active, x.dims()));
  };
  return b.select(is(at), sum(by.first_of_first, by.second_of_first),
                  b.select(is(after), sum(by.first_of_second, by.second_of_second), x));
}

Value at_element(Builder& b, Value x, Value row, Value column) {
  return b.and_(b.eq(b.iota(DType::kS32, x.dims(), 1), per_batch(b, row, x.dims())),
                b.eq(b.iota(DType::kS32, x.dims(), 2), per_batch(b, column, x.dims())));
}

// The block of two at `at` becomes triangular, (x, y) being its first eigenvector.
Similar split(Builder& b, const Similar& s, Value at, Value active, Value x, Value y) {
  const Value length = b.sqrt(b.add(squares(b, x), squares(b, y)));
  const Value safe = like(b, b.select(b.gt(length, b.zeros_like(length)), length, b.full_like(length, 1)), x);
  const Value u = b.div(x, safe), v = b.div(y, safe), u_bar = conjugate(b, u), v_bar = conjugate(b, v);
  const Mix columns{u, v, b.neg(v_bar), u_bar}, rows{u_bar, v_bar, b.neg(v), u};
  const Value h = mixed(b, mixed(b, s.h, 1, at, active, rows), 2, at, active, columns);
  const Value below = b.and_(at_element(b, h, b.add(at, int32(b, 1)), at), per_batch(b, active, h.dims()));
  return {b.select(below, b.scalar(0, h.dtype()), h), mixed(b, s.z, 2, at, active, columns)};
}

// The main diagonal of h [batch, n, n] and those beside it: element i stands in row i, of `above` in column i.
struct Diagonals {
  Value main, below, above;
  Diagonals(Builder& b, Value h) : main(diagonal(b, h)) {
    const Value row = b.iota(DType::kS32, h.dims(), 1), column = b.iota(DType::kS32, h.dims(), 2);
    const Value one = int32(b, 1), zero = b.scalar(0, h.dtype());
    below = b.reduce(Reduce::kAdd, b.select(b.eq(row, b.add(column, one)), h, zero), {2});
    above = b.reduce(Reduce::kAdd, b.select(b.eq(column, b.add(row, one)), h, zero), {1});
  }
};

// Elements below the diagonal that are nothing beside their neighbours on it become zero.
Value deflated(Builder& b, Value h) {
  const Diagonals d(b, h);
  const Value size = b.abs(d.main), eps = b.scalar(precision_of(h.dtype()), size.dtype());
  const int64_t n = size.dim(1);
  const Value before = b.pad(b.slice_dim(size, 1, 0, n - 1), b.scalar(0, size.dtype()), {0, 1}, {0, 0});
  const Value limit = b.mul(eps, b.max(b.add(size, before), eps));
  const Value gone = b.broadcast_in_dim(b.le(b.abs(d.below), limit), h.dims(), {0, 1});
  const Value row = b.iota(DType::kS32, h.dims(), 1), column = b.iota(DType::kS32, h.dims(), 2);
  return b.select(b.and_(gone, b.eq(row, b.add(column, int32(b, 1)))), b.scalar(0, h.dtype()), h);
}

// The last block of two, one a matrix, that ends at `high`.
struct Corner {
  Value a, b, c, d;
};

// The first eigenvector of a real block, where `real` says that it has one: the one that cancels nothing.
struct Split {
  Value x, y, real;
};
Split first_vector(Builder& b, const Corner& m) {
  const Value half = b.mul(b.sub(m.a, m.d), b.scalar(0.5, m.a.dtype()));
  const Value square = b.add(b.mul(half, half), b.mul(m.b, m.c)), zero = b.zeros_like(half);
  const Value real = b.ge(square, zero), root = b.sqrt(b.max(square, zero));
  const Value x = b.add(half, b.select(b.lt(half, zero), b.neg(root), root)), none = b.eq(m.b, zero);
  return {b.select(none, zero, x), b.select(none, b.full_like(x, 1), m.c), real};
}

// The eigenvalue of a block that is nearer to d; of a pair, its real part, and the square of the imaginary one.
struct Shift {
  Value value, apart;
};
Shift shift_of(Builder& b, const Corner& m) {
  const auto halved = [&](Value v) { return b.mul(v, b.scalar(0.5, v.dtype())); };
  const Value half = halved(b.sub(m.a, m.d)), mean = halved(b.add(m.a, m.d)), zero = b.zeros_like(half);
  const Value square = b.add(b.mul(half, half), b.mul(m.b, m.c));
  if (is_complex(half.dtype())) {
    const Value root = b.sqrt(square);
    const Value nearer = b.le(b.abs(b.add(half, root)), b.abs(b.sub(half, root)));
    return {b.select(nearer, b.add(mean, root), b.sub(mean, root)), zero};
  }
  const Value root = b.sqrt(b.max(square, zero));
  const Value nearer = b.select(b.gt(half, zero), b.sub(mean, root), b.add(mean, root));
  return {b.select(b.lt(square, zero), mean, nearer), b.max(b.neg(square), zero)};
}

// One step on the rows `low` to `high` of matrices where `active`: a reflection makes the first column of (h - s) (h -
// t), or of h - s if complex, a multiple of the first unit vector; others chase away what that leaves below the
// diagonals.
Similar francis_step(Builder& b, const Similar& s, Value low, Value high, Value active, const Corner& corner) {
  const int64_t batch = s.h.dim(0), n = s.h.dim(1), rows = s.z.dim(1);
  const Shift shift = shift_of(b, corner);
  const Diagonals d(b, s.h);
  const auto element = [&](Value v, int64_t behind) { return taken(b, v, b.add(low, int32(b, behind)), 1); };
  const Value next = element(d.main, 1), below = element(d.below, 1);
  const Value off = b.sub(element(d.main, 0), shift.value);
  Value x = off, y = below, z = b.zeros_like(off);
  if (!is_complex(off.dtype())) {
    x = b.add(b.add(b.mul(off, off), shift.apart), b.mul(element(d.above, 1), below));
    y = b.mul(below, b.add(off, b.sub(next, shift.value))), z = b.mul(below, element(d.below, 2));
  }
  const auto as_column = [&](Value v) { return b.reshape(v, {batch, 1}); };
  const Value start = b.concat({as_column(x), as_column(y), as_column(z)}, 1);
  const Value none = b.full(0, DType::kS32, {batch});
  const Value from =
      b.reduce(Reduce::kMin, b.select(active, low, b.full(static_cast<double>(n), DType::kS32, {batch})), {0});
  const Value to = b.reduce(Reduce::kMax, b.select(active, high, none), {0});
  const Values done = b.while_(
      {from, s.h, s.z}, [&](const Values& v) { return Values{b.lt(v[0], to)}; },
      [&](const Values& v) {
        const Value k = v[0], zeroth = int32(b, 0), one = int32(b, 1), before = b.sub(k, one);
        const Value mine = b.and_(active, b.and_(b.ge(k, low), b.lt(k, high))), begins = b.eq(k, low);
        const Value three = b.iota(DType::kS32, {batch, 3}, 1), zero = b.scalar(0, s.h.dtype());
        Value column = b.reshape(b.dynamic_slice(v[1], {zeroth, k, b.max(before, zeroth)}, {batch, 3, 1}), {batch, 3});
        column = b.select(per_batch(b, begins, column.dims()), start, column);
        const Value inside = b.le(b.add(three, k), per_batch(b, high, three.dims()));
        const Reflector r(b, b.select(inside, column, zero), b.eq(three, zeroth), mine);
        const auto slice = [&](Value m, const Values& at, const Dims& sizes) { return b.dynamic_slice(m, at, sizes); };
        const Values by_row{zeroth, k, zeroth}, by_column{zeroth, zeroth, k};
        Value h = b.dynamic_update_slice(v[1], r.on_rows(b, slice(v[1], by_row, {batch, 3, n})), by_row);
        h = b.dynamic_update_slice(h, r.on_columns(b, slice(h, by_column, {batch, n, 3})), by_column);
        const Value w =
            b.dynamic_update_slice(v[2], r.on_columns(b, slice(v[2], by_column, {batch, rows, 3})), by_column);
        const Value gone =
            b.and_(b.gt(b.iota(DType::kS32, h.dims(), 1), k), b.eq(b.iota(DType::kS32, h.dims(), 2), before));
        const Value chased = per_batch(b, b.and_(mine, b.not_(begins)), h.dims());
        return Values{b.add(k, one), b.select(b.and_(gone, chased), zero, h), w};
      });
  return {done[1], done[2]};
}

}  // namespace

Schur schur(Builder& b, Value a) {
  const Similar start = hessenberg(b, a);
  const int64_t batch = start.h.dim(0), n = start.h.dim(1), limit = 30 * std::max<int64_t>(10, n) + 2 * n;
  const Value zero = b.scalar(0, start.h.dtype()), none = b.full(0, DType::kS32, {batch});
  // Two more rows and columns, so that three of each stand everywhere.
  const Values done = b.while_(
      {int32(b, 0), b.full(static_cast<double>(n - 1), DType::kS32, {batch}), none,
       b.pad(start.h, zero, {0, 0, 0}, {0, 2, 2}), b.pad(start.z, zero, {0, 0, 0}, {0, 0, 2})},
      [&](const Values& s) {
        const Value open = b.reduce(Reduce::kOr, b.gt(s[1], int32(b, 0)), {0});
        return Values{b.and_(open, b.lt(s[0], int32(b, limit)))};
      },
      [&](const Values& s) {
        const Value high = s[1], steps = s[2], one = int32(b, 1);
        Similar now{deflated(b, s[3]), s[4]};
        const Diagonals d(b, now.h);
        const Value place = b.iota(DType::kS32, d.below.dims(), 1);
        const Value begins =
            b.and_(b.eq(d.below, b.scalar(0, d.below.dtype())), b.le(place, per_batch(b, high, place.dims())));
        const Value low = b.reduce(Reduce::kMax, b.select(begins, place, int32(b, 0)), {1});
        const auto element = [&](Value v, int64_t before) { return taken(b, v, b.sub(high, int32(b, before)), 1); };
        const Value open = b.gt(high, int32(b, 0)), size = b.sub(high, low);
        Corner corner{element(d.main, 1), element(d.above, 0), element(d.below, 0), element(d.main, 0)};
        Value left = b.sub(high, one), larger = b.and_(open, b.gt(size, int32(b, 0)));
        if (!is_complex(now.h.dtype())) {  // two rows are done
          const Value pair = b.and_(larger, b.eq(size, one));
          const Split vector = first_vector(b, corner);
          now = split(b, now, left, b.and_(pair, vector.real), vector.x, vector.y);
          left = b.select(pair, b.sub(left, one), left), larger = b.and_(larger, b.not_(pair));
        }
        // Every tenth step takes other shifts, so that no circle goes on.
        const Value stuck = b.and_(b.gt(steps, int32(b, 0)), b.eq(b.rem(steps, int32(b, 10)), int32(b, 0)));
        const Value jump = like(b, b.add(b.abs(corner.c), b.abs(element(d.below, 1))), corner.a);
        const auto times = [&](Value v, double by) { return b.mul(v, b.scalar(by, v.dtype())); };
        const Value middle = b.add(corner.d, times(jump, 0.75));
        corner = {b.select(stuck, middle, corner.a), b.select(stuck, times(jump, -0.4375), corner.b),
                  b.select(stuck, jump, corner.c), b.select(stuck, middle, corner.d)};
        now = francis_step(b, now, low, high, larger, corner);
        left = b.select(larger, high, left);
        return Values{b.add(s[0], one), b.max(left, int32(b, -1)), b.select(larger, b.add(steps, one), none), now.h,
                      now.z};
      });
  const Value h = b.slice_dim(b.slice_dim(done[3], 1, 0, n), 2, 0, n);
  return {{h, b.slice_dim(done[4], 2, 0, n)}, b.gt(done[1], int32(b, 0))};
}

Similar triangular(Builder& b, const Similar& s, DType dtype) {
  const int64_t batch = s.h.dim(0), n = s.h.dim(1);
  const DType real = s.h.dtype();
  const Values done = b.while_(
      {int32(b, 0), b.convert(s.h, dtype), b.convert(s.z, dtype)},
      [&](const Values& v) { return Values{b.lt(v[0], int32(b, n - 1))}; },
      [&](const Values& v) {
        const Value at = b.broadcast_to(v[0], {batch}), after = b.add(at, int32(b, 1));
        const auto element = [&](Value row, Value column) {
          return b.real(taken(b, taken(b, v[1], row, 1), column, 1));
        };
        const Value a = element(at, at), c = element(after, at), d = element(after, after);
        const auto halved = [&](Value x) { return b.mul(x, b.scalar(0.5, real)); };
        const Value half = halved(b.sub(a, d)), mean = halved(b.add(a, d)), zero = b.zeros_like(half);
        const Value square = b.add(b.mul(half, half), b.mul(element(at, after), c));
        const Value height = b.sqrt(b.max(b.neg(square), zero)), active = b.ne(c, zero);
        Similar next = split(b, {v[1], v[2]}, at, active, b.complex(half, height), b.complex(c, zero));
        for (const bool upper : {true, false}) {
          const Value where =
              b.and_(at_element(b, v[1], upper ? at : after, upper ? at : after), per_batch(b, active, v[1].dims()));
          const Value value = b.complex(mean, upper ? height : b.neg(height));
          next.h = b.select(where, per_batch(b, value, v[1].dims()), next.h);
        }
        return Values{b.add(v[0], int32(b, 1)), next.h, next.z};
      });
  return {done[1], done[2]};
}

}  // namespace tpu::ops
