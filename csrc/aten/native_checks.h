// What PyTorch's kernels check, in functions that its headers give or inside, so that users read the words of all
// devices: a meta function in Python has words of its own, or none.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// Throws what PyTorch would.
void check_natively(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

// Of the operands of a product.
void check_one_dtype(const std::string& name, const std::vector<at::Tensor>& operands);

// Of a result that goes to a tensor that is there.
void check_castable(const at::Tensor& result, const at::Tensor& target);

}  // namespace tpu::aten
