// What factorizations of a batch of matrices [batch, rows, columns] need to read places, choose pivots and move them.
#pragma once

#include "ops/triangles.h"

namespace tpu::ops {

inline Value int32(Builder& b, int64_t v) { return b.scalar_int(v, DType::kS32); }

// A number a matrix as large as `dims`; one number for all is broadcast where it is used.
inline Value per_batch(Builder& b, Value v, const Dims& dims) {
  return v.rank() == 0 ? v : b.broadcast_in_dim(v, dims, {0});
}

// What LAPACK compares when it looks for a pivot.
inline Value magnitude(Builder& b, Value x) {
  return is_complex(x.dtype()) ? b.add(b.abs(b.real(x)), b.abs(b.imag(x))) : b.abs(x);
}

// x [batch, ...] at place `at` (one a matrix) of dimension `dim`, which goes; zero where there is no such place.
inline Value taken(Builder& b, Value x, Value at, int64_t dim) {
  const Value here = b.eq(b.iota(DType::kS32, x.dims(), dim), per_batch(b, at, x.dims()));
  return b.reduce(hlo::Reduce::kAdd, b.select(here, x, b.scalar(0, x.dtype())), {dim});
}

// Exchanges rows k and p of x [batch, rows, ...]: the same ones of each matrix, or of each its own.
inline Value exchanged(Builder& b, Value x, Value k, Value p) {
  const Value row = b.iota(DType::kS32, x.dims(), 1);
  const Value is_k = b.eq(row, per_batch(b, k, x.dims())), is_p = b.eq(row, per_batch(b, p, x.dims()));
  const auto row_where = [&](Value mask) {
    const Value only = b.select(mask, x, b.scalar(0, x.dtype()));
    Dims mapping{0};
    for (int64_t d = 2; d < x.rank(); ++d) mapping.push_back(d);
    return b.broadcast_in_dim(b.reduce(hlo::Reduce::kAdd, only, {1}), x.dims(), mapping);
  };
  return b.select(is_k, row_where(is_p), b.select(is_p, row_where(is_k), x));
}

// The first of the largest of each row of x [batch, n], NaN being the largest; at least -1, at n where all are less.
struct Largest {
  Value value, index;
};
inline Largest first_largest(Builder& b, Value x) {
  const Value at = b.iota(DType::kS32, x.dims(), 1);
  const Values found = b.reduce({x, at}, {b.scalar(-1, x.dtype()), int32(b, x.dim(1))}, {1}, [&](const Values& v) {
    const Value nan = b.is_nan(v[0]), second_nan = b.is_nan(v[2]), before = b.lt(v[3], v[1]);
    const Value tie = b.or_(b.eq(v[0], v[2]), b.and_(nan, second_nan));
    const Value larger = b.or_(b.gt(v[2], v[0]), b.and_(second_nan, b.not_(nan)));
    const Value second = b.or_(larger, b.and_(tie, before));
    return Values{b.select(second, v[2], v[0]), b.select(second, v[3], v[1])};
  });
  return {found[0], found[1]};
}

}  // namespace tpu::ops
