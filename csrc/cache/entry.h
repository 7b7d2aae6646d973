// An entry as bytes: a header with the keys, lengths and a checksum; then, packed together, the program as text and the
// executable as the plugin serialized it.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/fingerprint.h"

namespace tpu::cache {

std::string encode(const Fingerprint& key, std::string_view program, std::string_view executable);

// The executable. An error, which says what is wrong, unless every byte is as written and the entry is that of this
// program.
Result<std::string> decode(std::string_view bytes, const Fingerprint& key, std::string_view program);

}  // namespace tpu::cache
