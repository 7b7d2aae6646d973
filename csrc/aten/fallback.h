// Counts of operators that ran on the CPU.
#pragma once

#include <map>
#include <string>

#include "aten/pch.h"

namespace tpu::aten {

// By operator name, "aten::foo.bar".
std::map<std::string, int64_t> fallback_counts();

}  // namespace tpu::aten
