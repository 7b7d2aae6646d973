// Operators without a row: PyTorch's decomposition, run once a signature and replayed from its plan afterwards.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// Runs PyTorch's decomposition of `op` on the arguments on top of the stack, leaving its returns there; false where
// there is none. Set by the Python layer.
using Decompose = bool (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void set_decompose(Decompose decompose);

// False where the operator has no decomposition.
bool run_decomposed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace tpu::aten
