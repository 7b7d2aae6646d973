// What an executable was made by and for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pjrt/pjrt.h"

namespace tpu::cache {

// Differs where an executable of one process may not run, or not give the same, in the other: by compile options, build
// of the plugin, platform, and for a CPU its features.
std::string options_of(const pjrt::Client& client, std::string_view compile_options);

// Versions, for people; then a digest of each part of the options, so that two of them tell in which they differ:
// "torch_tpu 1.0, ... [compile options 0123456789abcdef; plugin ...]".
std::string made_by(const pjrt::Client& client, std::string_view compile_options);

}  // namespace tpu::cache
