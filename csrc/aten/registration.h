// Which overloads of PyTorch's operators the engine serves.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// Registers the kernels of the op table. Called once, after the files' own kernels are registered.
void register_operators();

// Runs an in-place or out= overload that has no row through the functional one of its group, and writes the result;
// false where the group has none.
bool run_functional(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// dst.copy_(src) where both are tpu tensors, or src is a 0-d CPU tensor.
void copy_on_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

// The table's row of an overload that has a kernel of its own.
void run_wrapped(const char* name, torch::jit::Stack* stack);

}  // namespace tpu::aten
