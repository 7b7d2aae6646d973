// The engine: every ATen op of the table arrives here, in all modes.
#pragma once

#include "aten/plan.h"
#include "runtime/region.h"

namespace tpu::aten {

// Runs one call of `overload` whose arguments are on top of the stack.
void run(const Overload& overload, torch::jit::Stack* stack);

// Runs a plan whose arguments are on top of the stack, and leaves its returns there.
void run_plan(const Plan& plan, const Frame& frame, torch::jit::Stack* stack, size_t num_arguments);

// A value with other dims or dtype over the same bytes, cut or padded with zeros.
runtime::ValuePtr resized(const runtime::ValuePtr& value, const hlo::Type* type);

// Records a call outside any plan. Operands are what the tensors read as (`call.operands` is filled in here); results
// are fresh tensors.
std::vector<at::Tensor> record(hlo::Call call, const std::vector<at::Tensor>& operands);

// The value of a tensor (its geometry read out of its cell), ready on the device.
runtime::ValuePtr ready_value(const at::TensorImpl& impl);

// While one lives, Strict and Debug mode do not cut: the calls of this thread gather in its region. Whoever holds cuts.
class Hold {
 public:
  Hold();
  ~Hold();
};

// A sink: cuts the work that `value` waits for and counts it.
void materialize(runtime::Value& value);

}  // namespace tpu::aten
