// Eigenvalues and eigenvectors of any square matrix, from its Schur form by back substitution.
#include <limits>

#include "ops/families.h"
#include "ops/schur.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

// Eigenvectors of a triangular matrix, as columns of any length.
Value back_substituted(Builder& b, Value t) {
  const int64_t batch = t.dim(0), n = t.dim(1);
  const Value values = diagonal(b, t), place = b.iota(DType::kS32, values.dims(), 1);
  const DType real = real_of(t.dtype());
  const double eps = precision_of(t.dtype());
  const Value largest = b.reduce(Reduce::kMax, b.abs(t), {1, 2});
  const Value least = b.max(b.mul(largest, b.scalar(eps, real)), b.scalar(eps * eps, real));
  return b.while_(
      {int32(b, n - 1), b.zeros_like(t)}, [&](const Values& s) { return Values{b.ge(s[0], int32(b, 0))}; },
      [&](const Values& s) {
        const Value j = s[0], zeroth = int32(b, 0), zero = b.scalar(0, t.dtype());
        const Value row = b.reshape(b.dynamic_slice(t, {zeroth, j, zeroth}, {batch, 1, n}), {batch, n});
        const Value right = b.select(b.gt(place, j), row, zero);
        const Value sum = b.reduce(Reduce::kAdd, b.mul(b.broadcast_in_dim(right, t.dims(), {0, 1}), s[1]), {1});
        const Value mine = b.reduce(Reduce::kAdd, b.select(b.eq(place, j), values, zero), {1});
        const Value gap = b.sub(values, per_batch(b, mine, values.dims())), floor = per_batch(b, least, values.dims());
        const Value safe = b.select(b.lt(b.abs(gap), floor), like(b, floor, gap), gap);
        const Value solved = b.select(b.gt(place, j), b.div(sum, safe), zero);
        const Value next = b.select(b.eq(place, j), b.scalar(1, t.dtype()), solved);
        const Value here = b.eq(b.iota(DType::kS32, t.dims(), 1), j);
        const Value x = b.select(here, b.broadcast_in_dim(next, t.dims(), {0, 2}), s[1]);
        // Vectors that grow are made shorter on the way.
        const Value size = b.abs(next);
        const Value by =
            b.select(b.gt(size, b.scalar(1e9, real)), b.div(b.full_like(size, 1), size), b.full_like(size, 1));
        return Values{b.sub(j, int32(b, 1)), b.mul(x, b.broadcast_in_dim(like(b, by, x), x.dims(), {0, 2}))};
      })[1];
}

// Of length 1, the largest element being real; of real matrices, real or conjugate in pairs.
Value normalized(Builder& b, Value v, Value values, bool of_real) {
  const auto wide = [&](Value x) { return b.broadcast_in_dim(x, v.dims(), {0, 2}); };
  const Value size = b.abs(v), largest = b.reduce(Reduce::kMax, size, {1}), zero = b.scalar(0, v.dtype());
  const Value row = b.iota(DType::kS32, v.dims(), 1);
  const Value candidates = b.select(b.eq(size, wide(largest)), row, int32(b, v.dim(1)));
  const Value first = b.eq(row, wide(b.reduce(Reduce::kMin, candidates, {1})));
  const Value head = b.reduce(Reduce::kAdd, b.select(first, v, zero), {1});
  const Value scale = b.select(b.gt(largest, b.zeros_like(largest)), largest, b.full_like(largest, 1));
  Value phase = b.div(head, like(b, scale, head));
  if (of_real) {  // the sign stays
    const Value flat = b.eq(b.imag(values), b.zeros_like(b.imag(values)));
    phase = b.select(flat, b.full_like(phase, 1), phase);
    v = b.select(wide(flat), b.convert(b.real(v), v.dtype()), v);
  }
  v = b.mul(v, wide(b.div(conjugate(b, phase), like(b, scale, head))));
  v = b.select(b.and_(first, wide(b.ne(phase, b.full_like(phase, 1)))), b.convert(b.real(v), v.dtype()), v);
  const Value length = b.sqrt(b.reduce(Reduce::kAdd, squares(b, v), {1}));
  v = b.div(v, wide(like(b, length, v)));
  if (!of_real) return v;
  const int64_t n = v.dim(2);
  const Value previous = b.pad(b.slice_dim(v, 2, 0, n - 1), zero, {0, 0, 1}, {0, 0, 0});
  return b.select(wide(b.lt(b.imag(values), b.zeros_like(b.imag(values)))), conjugate(b, previous), v);
}

Values eigen(Builder& b, const Call& call, Value a, bool with_vectors) {
  if (a.numel() == 0) {
    Values out;
    for (const hlo::Type* type : call.results) out.push_back(b.zeros(*type));
    return out;
  }
  const DType complex = call.results[0]->dtype;
  const bool of_real = !is_complex(a.dtype());
  const Value x = batched(b, a), largest = b.reduce(Reduce::kMax, b.abs(x), {1, 2});
  const Value scale = b.select(b.gt(largest, b.zeros_like(largest)), largest, b.full_like(largest, 1));
  const Schur found = schur(b, b.div(x, per_batch(b, like(b, scale, x), x.dims())));
  const Similar t = of_real ? triangular(b, found.s, complex) : found.s;
  const Value values = diagonal(b, t.h), nan = b.scalar(std::numeric_limits<double>::quiet_NaN(), complex);
  const Value scaled = b.mul(values, per_batch(b, like(b, scale, values), values.dims()));
  Values out{b.reshape(b.select(per_batch(b, found.failed, scaled.dims()), nan, scaled), call.results[0]->dims)};
  if (with_vectors) {
    const Value vectors = b.matmul(t.z, back_substituted(b, t.h), complex);
    out.push_back(b.reshape(normalized(b, vectors, values, of_real), call.results[1]->dims));
  }
  return out;
}

}  // namespace

void add_eig(Table& ops) {
  ops.add("linalg_eig", plain, [](Builder& b, const Call& call, Value a) { return eigen(b, call, a, true); });
  ops.add("_linalg_eigvals", plain, [](Builder& b, const Call& call, Value a) { return eigen(b, call, a, false); });
}

}  // namespace tpu::ops
