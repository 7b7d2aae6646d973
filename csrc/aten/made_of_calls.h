// Operators that are made of calls of others: a decomposition, a graph of torch.compile. Those calls are run once a
// signature and replayed from one plan afterwards.
#pragma once

#include <functional>

#include "aten/plan.h"

namespace tpu::aten {

// Runs an overload on the arguments on top of the stack, leaving its returns there. `make` is given the arguments and
// replaces them by the returns; it has to make the same calls for equal signatures. At first it is given stand-ins,
// each dense and with a storage of its own, to find the plan; where the calls depend on elements, and in Debug mode, it
// is given the arguments themselves. False where it returns false; the stack is then as it was.
bool run_made_of_calls(const Overload& overload, torch::jit::Stack* stack,
                       const std::function<bool(torch::jit::Stack&)>& make);

}  // namespace tpu::aten
