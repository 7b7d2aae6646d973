// What happens to an operator without a row.
#pragma once

#include <map>
#include <string>

#include "aten/pch.h"

namespace tpu::aten {

// PyTorch's decomposition, else the functional form of its group, else the CPU.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Calls that ran on the CPU, by operator name, "aten::foo.bar".
std::map<std::string, int64_t> fallback_counts();

}  // namespace tpu::aten
