// Elements of a tensor by their position along one dimension.
#pragma once

#include "ops/reducing.h"

namespace tpu::ops {

// x[..., indices[...], ...]: `indices` has the dims of `x` but for `dim`, where it has any size.
inline Value take_along(Builder& b, Value x, Value indices, int64_t dim) {
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
