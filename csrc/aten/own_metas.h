// What calls return, where PyTorch's meta functions, written for another device, give other strides than the CPU, or
// there are none, or where they are in Python: the first of those to run imports 800 modules.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace tpu::aten {

struct OwnMeta {
  // The arguments are those of the functional overload, in order; the results stand on the meta device.
  std::vector<at::Tensor> (*results)(c10::ArrayRef<c10::IValue> arguments) = nullptr;
  bool targets_alike = false;  // out= tensors that are resized take the strides too, else they are contiguous
  bool for_fresh = false;      // only for the functional overload: others take the dtype of their target
  // Instead of `results`, of a functional overload that returns numbers too.
  std::vector<c10::IValue> (*returns)(c10::ArrayRef<c10::IValue> arguments) = nullptr;

  bool is_known() const { return results != nullptr || returns != nullptr; }
};

// Not known where PyTorch's serves.
OwnMeta own_meta(const std::string& functional);

}  // namespace tpu::aten
