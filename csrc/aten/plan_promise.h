// What a call gives by PyTorch's word: its meta functions say what comes out, in which strides, and what is refused.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

struct Promise {
  std::vector<Resize> resizes;          // out= tensors that need another size first: then nothing else is said
  std::vector<Output> outputs;          // their sources are not known yet
  std::vector<int32_t> returns;         // see Plan
  std::vector<const hlo::Type*> types;  // of all results: those returned fresh, then those written to arguments
  std::vector<uint32_t> targets;        // tensors of the frame that are written, in the order of their results
};

// Throws what PyTorch would. `arguments`: those of the overload.
Promise promise(const Overload& overload, c10::ArrayRef<c10::IValue> arguments);

// A static argument as the lowerings see it.
hlo::Attr to_attr(const c10::IValue& v);

}  // namespace tpu::aten
