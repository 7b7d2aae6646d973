// The engine: every ATen op of the table arrives here, in all modes.
#pragma once

#include "aten/plan.h"
#include "runtime/region.h"

namespace tpu::aten {

// Runs one call of `overload` whose arguments are on top of the stack.
void run(const Overload& overload, torch::jit::Stack* stack);

// Runs a plan whose arguments are on top of the stack, and leaves its returns there.
void run_plan(const Plan& plan, const Frame& frame, torch::jit::Stack* stack, size_t num_arguments);

}  // namespace tpu::aten
