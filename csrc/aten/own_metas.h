// What calls return, where PyTorch's meta functions, written for another device, give other strides than the CPU, or
// there are none.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace tpu::aten {

struct OwnMeta {
  // The arguments are those of the functional overload, in order; the results stand on the meta device.
  std::vector<at::Tensor> (*results)(c10::ArrayRef<c10::IValue> arguments) = nullptr;
  bool targets_alike = false;  // out= tensors that are resized take the strides too, else they are contiguous
};

// Without `results` where PyTorch's serves.
OwnMeta own_meta(const std::string& functional);

}  // namespace tpu::aten
