// Linear algebra that does more than a lowering.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// Determinants with the factors that their derivatives are made of.
void run_determinant(const Overload& overload, torch::jit::Stack* stack);

// Eigenvalues, of what is finite.
void run_eigen(const Overload& overload, torch::jit::Stack* stack);

}  // namespace tpu::aten
