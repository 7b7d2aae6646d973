// PyTorch's meta functions: output metadata, and most of PyTorch's own error messages.
#pragma once

#include <map>

#include "aten/plan.h"

namespace tpu::aten {

// What the overload's meta function did: its returns, and the arguments as it left them (out= may be resized).
struct MetaResult {
  std::vector<c10::IValue> arguments, returns;
};

// Whether this thread is inside the meta function of a structured operator, whose tensors are stand-ins on the device:
// what is asked to write to one does nothing.
inline constinit thread_local bool inside_meta = false;

// Throws what the meta function throws. `numbers`: the operator takes 0-d tensors of the CPU beside others, which some
// functions in Python do not know.
MetaResult run_meta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, bool numbers);

// The tensors of an argument or a return, lists flattened; undefined ones are left out.
void append_tensors(const c10::IValue& v, std::vector<at::Tensor>& out);

// `v` with f(t) for each tensor t in it, alone or in a list; g(t) in a list that may lack some.
template <typename F, typename G>
c10::IValue map_tensors(const c10::IValue& v, F f, G g) {
  if (v.isTensor()) return f(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(f(t));
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& e : v.toListRef())
      list.push_back(e.isNone() ? std::nullopt : std::optional(g(e.toTensor())));
    return list;
  }
  return v;
}

}  // namespace tpu::aten
