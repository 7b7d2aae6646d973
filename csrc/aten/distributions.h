// The checks of random operators on their numbers: PyTorch makes them in its kernels, not in its meta functions.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// Checks the numbers of an overload (uniform_, random_.from, multinomial, ...), then runs it.
void run_distribution(const Overload& overload, torch::jit::Stack* stack);

}  // namespace tpu::aten
