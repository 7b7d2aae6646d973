// PyTorch's meta functions: output metadata, and most of PyTorch's own error messages.
#pragma once

#include <map>

#include "aten/plan.h"

namespace tpu::aten {

// What the overload's meta function did: its returns, and the arguments as it left them (out= may be resized).
struct MetaResult {
  std::vector<c10::IValue> arguments, returns;
};

// Throws what the meta function throws. `numbers`: the operator takes 0-d tensors of the CPU beside others, which some
// functions in Python do not know.
MetaResult run_meta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, bool numbers);

// The tensors of an argument or a return, lists flattened; undefined ones are left out.
void append_tensors(const c10::IValue& v, std::vector<at::Tensor>& out);

}  // namespace tpu::aten
