// What an executable was made by and for.
#pragma once

#include <cstdint>
#include <string_view>

#include "pjrt/pjrt.h"

namespace tpu::cache {

// Differs where an executable of one process may not run, or not give the same, in the other: by compile options, build
// of the plugin, platform, and for a CPU its features.
uint64_t options_key(const pjrt::Client& client, std::string_view compile_options);

}  // namespace tpu::cache
