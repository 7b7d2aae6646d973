// Operators whose results have sizes that depend on data. They compute on the device at the largest size there can be,
// read back the size alone, and give a part of what was computed: so a new size compiles nothing here.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// index.Tensor and index_put, where masks may stand among the indices.
void run_index(const Overload& overload, torch::jit::Stack* stack);
void run_index_put(const Overload& overload, torch::jit::Stack* stack);

}  // namespace tpu::aten
