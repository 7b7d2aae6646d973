// Linear algebra whose derivative in PyTorch relies on more than a result's values.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// Determinants with the factors that their derivatives are made of.
void run_determinant(const Overload& overload, torch::jit::Stack* stack);

}  // namespace tpu::aten
