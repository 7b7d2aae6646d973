// Operators whose results have sizes that depend on data.
#pragma once

#include "aten/pch.h"

namespace tpu::aten {

// For index.Tensor and index_put: masks among the indices become integers where the lowering needs them to be.
// `self, indices, ...` are the topmost arguments but for what the schema has behind them.
void prepare_index(torch::jit::Stack* stack);
void prepare_index_put(torch::jit::Stack* stack);

}  // namespace tpu::aten
