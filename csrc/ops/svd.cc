// Singular values, from the eigenvectors of a^H a. Their square rounds away what is small: below 1e-8 of the largest in
// float64, in which all is computed, so that float32 loses nothing. Of float64 the vectors are then rotated in pairs
// until the columns of a v are orthogonal to the last digit (one-sided Jacobi).
#include <algorithm>
#include <limits>

#include "ops/families.h"
#include "ops/orthogonal.h"
#include "ops/triangles.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

constexpr int64_t kMaxSweeps = 30;

Value per_column(Builder& b, Value v, Value like) { return b.broadcast_in_dim(v, like.dims(), {0, 2}); }

// The sum over rows of x^H y, a number a column.
Value inner(Builder& b, Value x, Value y) { return b.reduce(Reduce::kAdd, b.mul(conjugate(b, x), y), {1}); }

// Columns in pairs [batch, rows, pairs]; the first `rows` rows are those that shall be orthogonal, the others follow.
struct Pairs {
  Value left, right;
};

struct Rotated {
  Pairs pairs;
  Value worst;  // the largest cosine met
};
Rotated rotate(Builder& b, const Pairs& p, int64_t rows, double tolerance) {
  const Value x = b.slice_dim(p.left, 1, 0, rows), y = b.slice_dim(p.right, 1, 0, rows);
  const Value xx = b.real(inner(b, x, x)), yy = b.real(inner(b, y, y)), xy = inner(b, x, y), size = b.abs(xy);
  const DType real = size.dtype();
  const Value zero = b.zeros_like(size), one = b.full_like(size, 1);
  const Value lengths = b.mul(b.sqrt(xx), b.sqrt(yy));
  const Value cosine = b.select(b.gt(lengths, zero), b.div(size, lengths), zero);
  const Value turns = b.gt(cosine, b.scalar(tolerance, real));
  const Value safe = b.select(turns, size, one);
  const Value zeta = b.div(b.sub(yy, xx), b.add(safe, safe));
  const Value root = b.add(b.abs(zeta), b.sqrt(b.add(one, b.mul(zeta, zeta))));
  const Value tangent = b.div(b.select(b.ge(zeta, zero), one, b.full_like(size, -1)), root);
  const Value c = b.div(one, b.sqrt(b.add(one, b.mul(tangent, tangent)))), s = b.mul(c, tangent);
  const auto wide = [&](Value v, double otherwise) {
    const Value chosen = b.select(turns, v, b.full_like(v, otherwise));
    return per_column(b, b.convert(chosen, x.dtype()), p.left);
  };
  // The right column in phase with the left one.
  const Value phase = b.div(conjugate(b, xy), b.convert(safe, x.dtype()));
  const Value right = b.mul(p.right, per_column(b, b.select(turns, phase, b.full_like(phase, 1)), p.right));
  const Value cosines = wide(c, 1), sines = wide(s, 0);
  return {{b.sub(b.mul(cosines, p.left), b.mul(sines, right)), b.add(b.mul(sines, p.left), b.mul(cosines, right))},
          b.reduce(Reduce::kMax, cosine, {0, 1})};
}

// The next round of a tournament: after 2 * pairs - 1 of them each column has met each other, and all are back.
Pairs next_round(Builder& b, const Pairs& p) {
  const int64_t n = p.left.dim(2);
  if (n == 1) return p;
  const auto columns = [&](Value v, int64_t from, int64_t to) { return b.slice_dim(v, 2, from, to); };
  return {b.concat({columns(p.left, 0, 1), columns(p.right, 0, 1), columns(p.left, 1, n - 1)}, 2),
          b.concat({columns(p.right, 1, n), columns(p.left, n - 1, n)}, 2)};
}

// The columns of w in the order of their lengths, over the first `rows` rows, the longest first.
Value ordered(Builder& b, Value w, int64_t rows) {
  const Value x = b.slice_dim(w, 1, 0, rows), length = b.real(inner(b, x, x));
  const Dims square{w.dim(0), w.dim(2), w.dim(2)};
  const Value mine = b.broadcast_in_dim(length, square, {0, 1}), other = b.broadcast_in_dim(length, square, {0, 2});
  const Value earlier = b.gt(b.iota(DType::kS32, square, 1), b.iota(DType::kS32, square, 2));
  const Value before = b.or_(b.gt(other, mine), b.and_(b.eq(other, mine), earlier));
  const Value place = b.reduce(Reduce::kAdd, b.convert(before, DType::kS32), {2});
  const Value moves = b.eq(b.broadcast_in_dim(place, square, {0, 1}), b.iota(DType::kS32, square, 2));
  return b.matmul(w, b.convert(moves, w.dtype()), w.dtype());
}

// a v with orthogonal columns over v, from one where they nearly are.
Value jacobi(Builder& b, Value over, int64_t rows) {
  const int64_t n = over.dim(2), half = (n + 1) / 2, rounds = 2 * half - 1;
  const DType real = real_of(over.dtype());
  const double tolerance = std::numeric_limits<double>::epsilon() * static_cast<double>(rows);
  if (n == 1) return over;
  const Value even = b.pad(over, b.scalar(0, over.dtype()), {0, 0, 0}, {0, 0, 2 * half - n});
  const auto int32 = [&](int64_t v) { return b.scalar_int(v, DType::kS32); };
  const Values done = b.while_(
      // Rounds, the worst of the sweep at hand and of the last, the columns.
      {int32(0), b.scalar(0, real), b.scalar(1, real), b.slice_dim(even, 2, 0, half),
       b.slice_dim(even, 2, half, 2 * half)},
      [&](const Values& s) {
        return Values{b.and_(b.lt(s[0], int32(kMaxSweeps * rounds)), b.gt(s[2], b.scalar(tolerance, real)))};
      },
      [&](const Values& s) {
        const Rotated r = rotate(b, {s[3], s[4]}, rows, tolerance);
        const Pairs next = next_round(b, r.pairs);
        const Value worst = b.max(s[1], r.worst), round = b.add(s[0], int32(1));
        const Value ends = b.eq(b.rem(round, int32(rounds)), int32(0));
        return Values{round, b.select(ends, b.scalar(0, real), worst), b.select(ends, worst, s[2]), next.left,
                      next.right};
      });
  return b.slice_dim(ordered(b, b.concat({done[3], done[4]}, 2), rows), 2, 0, n);
}

struct Svd {
  Value u, s, v;  // a = u diag(s) v^H
};

// The left vectors are the QR factor of a v, so they are orthonormal whatever the rank. a [batch, m, n], m >= n.
Svd tall_svd(Builder& b, Value a, int64_t left_columns, bool refine) {
  const int64_t m = a.dim(1), n = a.dim(2);
  // The largest first, and of equal ones none before the other: of 0 the vectors are the identity.
  Value v = eigen(b, b.neg(b.matmul(adjoint(b, a), a, a.dtype())), true).vectors;
  Value image = b.matmul(a, v, a.dtype());
  if (refine) {
    const Value over = jacobi(b, b.concat({image, v}, 1), m);
    image = b.slice_dim(over, 1, 0, m), v = b.slice_dim(over, 1, m, m + n);
  }
  const Reflectors r = reflect(b, image);
  const Value d = diagonal(b, b.slice_dim(r.packed, 1, 0, n)), s = b.abs(d);
  // Signs (phases) go to the left vectors.
  const Value phase = b.select(b.eq(d, b.scalar(0, d.dtype())), b.scalar(1, d.dtype()), b.sign(d));
  const Value phases = b.pad(phase, b.scalar(1, d.dtype()), {0, 0}, {0, left_columns - n});
  const Value u = product_of(b, r, left_columns);
  return {b.mul(u, per_column(b, phases, u)), s, v};
}

// What the largest part of each matrix is, to divide by: squares must neither overflow nor vanish.
Value scale_of(Builder& b, Value a) {
  const Value largest = b.reduce(Reduce::kMax, b.abs(a), {1, 2});
  const Value usable = b.and_(b.is_finite(largest), b.gt(largest, b.zeros_like(largest)));
  return b.select(usable, largest, b.full_like(largest, 1));
}

Values svd(Builder& b, const Call& call, Value a, bool full, bool with_vectors) {
  const int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
  if (a.numel() == 0) {  // of nothing, the vectors are the identity
    Values out;
    for (const hlo::Type* type : call.results) out.push_back(b.zeros(*type));
    for (Value* v : {&out[0], &out[2]}) {
      if (v->numel() != 0) *v = identity_like(b, *v);
    }
    return out;
  }
  const bool tall = m >= n, refine = real_of(a.dtype()) == DType::kF64;
  Value x = batched(b, b.convert(a, is_complex(a.dtype()) ? DType::kC128 : DType::kF64));
  if (!tall) x = adjoint(b, x);
  const Value scale = scale_of(b, x);
  x = b.div(x, b.convert(b.broadcast_in_dim(scale, x.dims(), {0}), x.dtype()));
  const Svd d = tall_svd(b, x, full ? std::max(m, n) : k, refine);
  const Value s = b.reshape(b.mul(d.s, b.broadcast_in_dim(scale, d.s.dims(), {0})), call.results[1]->dims);
  if (!with_vectors) return {b.zeros(*call.results[0]), s, b.zeros(*call.results[2])};
  return {b.reshape(tall ? d.u : d.v, call.results[0]->dims), s,
          b.reshape(adjoint(b, tall ? d.v : d.u), call.results[2]->dims)};
}

}  // namespace

void add_svd(Table& ops) {
  ops.add("_linalg_svd", plain,
          [](Builder& b, const Call& call, Value a, bool full, bool with_vectors, optional<std::string>) {
            return svd(b, call, a, full, with_vectors);
          });
}

}  // namespace tpu::ops
