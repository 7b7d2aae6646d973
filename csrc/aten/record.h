// Work that is recorded outside any plan, and what ends the waiting for it.
#pragma once

#include <vector>

#include "aten/plan_run.h"

namespace tpu::aten {

// A value with other dims or dtype over the same bytes, cut or padded with zeros.
runtime::ValuePtr resized(const runtime::ValuePtr& value, const hlo::Type* type);

// Takes the padding of the cell's value away.
void remove_padding(Cell& cell);

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
