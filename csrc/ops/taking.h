// Elements of a tensor by their position.
#pragma once

#include "ops/reducing.h"

namespace tpu::ops {

// x[indices] of a rank-1 x.
inline Value take(Builder& b, Value x, Value indices) {
  if (x.numel() == 0) return b.zeros({x.dtype(), indices.dims()});  // there are no indices either
  return b.gather(x, indices, {.collapsed = {0}, .start_index_map = {0}, .index_vector_dim = indices.rank()}, {1});
}

// x[..., indices[...], ...]: `indices` has the dims of `x` but for `dim`, where it has any size.
inline Value take_along(Builder& b, Value x, Value indices, int64_t dim) {
  if (x.rank() == 1 || x.numel() == 0) return take(b, x, indices);
  hlo::GatherDims g;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d == dim) continue;
    g.operand_batching.push_back(d);
    g.indices_batching.push_back(d);
  }
  g.collapsed = {dim};
  g.start_index_map = {dim};
  g.index_vector_dim = indices.rank();
  return b.gather(x, indices, g, Dims(x.dims().size(), 1));
}

}  // namespace tpu::ops
