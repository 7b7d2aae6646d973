// What calls return, where PyTorch's meta functions, written for another device, give other strides than the CPU.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace tpu::aten {

// The arguments are those of the functional overload, in order; the results stand on the meta device.
using OwnMeta = std::vector<at::Tensor> (*)(c10::ArrayRef<c10::IValue> arguments);

// nullptr where PyTorch's serves.
OwnMeta own_meta(const std::string& functional);

}  // namespace tpu::aten
