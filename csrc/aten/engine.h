// The engine: every ATen op of the table arrives here, in all modes.
#pragma once

#include "aten/plan.h"
#include "runtime/region.h"

namespace tpu::aten {

// What one call takes and gives.
struct Exchange {
  using Returns = c10::SmallVector<c10::IValue, 4>;
  c10::ArrayRef<c10::IValue> arguments;
  Returns returns;                // empty before the call
  bool returns_arguments = true;  // else an argument that is returned is None here: the caller has it
};

// Arguments from the top of a stack, where finish() puts the returns in their place.
class StackExchange : public Exchange {
 public:
  StackExchange(torch::jit::Stack* stack, size_t num_arguments)
      : Exchange{torch::jit::last(*stack, num_arguments), {}}, stack_(stack) {}
  void finish() {
    torch::jit::drop(*stack_, arguments.size());
    for (c10::IValue& v : returns) stack_->push_back(std::move(v));
  }

 private:
  torch::jit::Stack* stack_;
};

// Runs one call of `overload`.
void run(const Overload& overload, Exchange& call);

// The same with the arguments on top of a stack.
void run(const Overload& overload, torch::jit::Stack* stack);

void run_plan(const Plan& plan, const Frame& frame, Exchange& call);

}  // namespace tpu::aten
