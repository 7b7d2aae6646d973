// Parts of (batches of) matrices, and matrices seen as one batch dimension and two more.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// Which elements of the last two dimensions stand on or below the diagonal moved `by` to the right.
inline Value on_or_below(Builder& b, const Dims& dims, int64_t by = 0) {
  const auto rank = static_cast<int64_t>(dims.size());
  const Value row = b.iota(DType::kS32, dims, rank - 2), column = b.iota(DType::kS32, dims, rank - 1);
  return b.ge(by == 0 ? row : b.add(row, b.scalar_int(by, DType::kS32)), column);
}
inline Value lower_triangle(Builder& b, Value x, int64_t by = 0) {
  return b.select(on_or_below(b, x.dims(), by), x, b.scalar(0, x.dtype()));
}
inline Value upper_triangle(Builder& b, Value x) {
  return b.select(on_or_below(b, x.dims(), -1), b.scalar(0, x.dtype()), x);
}
inline Value identity_like(Builder& b, Value x) {
  const Value row = b.iota(DType::kS32, x.dims(), x.rank() - 2), column = b.iota(DType::kS32, x.dims(), x.rank() - 1);
  return b.select(b.eq(row, column), b.scalar(1, x.dtype()), b.scalar(0, x.dtype()));
}
inline Value diagonal(Builder& b, Value x) {  // of square matrices
  const Value row = b.iota(DType::kS32, x.dims(), x.rank() - 2), column = b.iota(DType::kS32, x.dims(), x.rank() - 1);
  return b.reduce(hlo::Reduce::kAdd, b.select(b.eq(row, column), x, b.scalar(0, x.dtype())), {x.rank() - 1});
}

inline Value conjugate(Builder& b, Value x) {
  return is_complex(x.dtype()) ? b.complex(b.real(x), b.neg(b.imag(x))) : x;
}
inline Value transposed(Builder& b, Value x) {
  Dims order;
  for (int64_t d = 0; d < x.rank(); ++d) order.push_back(d);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return b.transpose(x, order);
}
inline Value adjoint(Builder& b, Value x) { return conjugate(b, transposed(b, x)); }

inline Dims batch_of(const Dims& dims) { return {dims.begin(), dims.end() - 2}; }
inline Dims with_matrix(Dims batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
// The same matrices over other batch dimensions.
inline Value over_batch(Builder& b, Value x, const Dims& batch) {
  return b.broadcast_to(x, with_matrix(batch, x.dim(-2), x.dim(-1)));
}

// Any batch as one dimension.
inline Value batched(Builder& b, Value x) {
  return b.reshape(x, {Type{x.dtype(), batch_of(x.dims())}.numel(), x.dim(-2), x.dim(-1)});
}

}  // namespace tpu::ops
