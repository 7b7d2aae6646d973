// Kernels that are called with PyTorch's C++ arguments, for the signatures that most operators have.
#pragma once

#include <torch/library.h>

#include <optional>

#include "aten/plan.h"

namespace tpu::aten {

// Null where the overload has another signature: it is then called with boxed arguments.
std::optional<torch::CppFunction> unboxed_kernel(const Overload& overload);

}  // namespace tpu::aten
