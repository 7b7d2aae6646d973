// Maxima with their positions in a plane (all spatial dimensions, row by row), as the max pools return them.
#pragma once

#include <limits>

#include "ops/row.h"

namespace tpu::ops {

inline int64_t plane_size(const Dims& dims, size_t leading) {
  int64_t n = 1;
  for (size_t i = leading; i < dims.size(); ++i) n *= dims[i];
  return n;
}

// The position of each element in its plane, s32.
inline Value positions(Builder& b, const Dims& dims, size_t leading) {
  const Dims plane(dims.begin() + static_cast<int64_t>(leading), dims.end());
  Dims mapping;
  for (size_t i = leading; i < dims.size(); ++i) mapping.push_back(static_cast<int64_t>(i));
  const Value flat = b.iota(DType::kS32, {plane_size(dims, leading)}, 0);
  return b.broadcast_in_dim(b.reshape(flat, plane), dims, mapping);
}

// What a maximum starts from: less than any element, at no position.
inline Values no_maximum(Builder& b, DType dtype) { return {b.lowest(dtype), b.highest(DType::kS32)}; }

// Of (value, position) and (value, position), the one that PyTorch's loops end with: the last NaN, else the first of
// the largest. A total order, so that parts may be taken in any order.
inline Values larger(Builder& b, const Values& v) {
  const Value before = b.lt(v[3], v[1]);
  Value second = b.or_(b.gt(v[2], v[0]), b.and_(b.eq(v[2], v[0]), before));
  if (is_float(v[0].dtype())) {
    const Value nan = b.is_nan(v[0]);
    second = b.or_(b.and_(second, b.not_(nan)), b.and_(b.is_nan(v[2]), b.not_(b.and_(nan, before))));
  }
  return {b.select(second, v[2], v[0]), b.select(second, v[3], v[1])};
}

// Zeros of `dims`, plus each gradient at its position in the plane.
inline Value add_at_positions(Builder& b, Value grad, Value position, const Dims& dims, size_t leading) {
  const int64_t plane = plane_size(dims, leading), of_grad = plane_size(grad.dims(), leading);
  const Type all{grad.dtype(), dims};
  const int64_t planes = plane == 0 ? 0 : all.numel() / plane;
  if (all.numel() == 0 || grad.numel() == 0) return b.zeros(all);
  const DType index = all.numel() <= std::numeric_limits<int32_t>::max() ? DType::kS32 : DType::kS64;
  const Dims by_plane = {planes, of_grad};
  const Value first = b.mul(b.iota(index, by_plane, 0), b.scalar_int(plane, index));
  const Value flat = b.add(first, b.reshape(b.convert(position, index), by_plane));
  const Value sums =
      b.scatter(b.zeros({grad.dtype(), {all.numel()}}), b.reshape(flat, {planes * of_grad, 1}), b.flatten(grad),
                {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1},
                [&](const Values& v) { return Values{b.add(v[0], v[1])}; });
  return b.reshape(sums, dims);
}

}  // namespace tpu::ops
