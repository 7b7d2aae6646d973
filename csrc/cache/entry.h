// An entry as bytes: a header with the keys, lengths and a checksum; what it is, in words; then, packed together, the
// program as text and the executable as the plugin serialized it.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/fingerprint.h"

namespace tpu::cache {

// Part of the options key too: two versions that share a directory do not see each other's entries.
constexpr uint64_t kEntryVersion = 2;

struct About {          // for people
  std::string name;     // the program's operator, or its first and last
  std::string made_by;  // versions of this project and the plugin, and digests: see made_by()
};

// What the first bytes of an entry say.
struct Label {
  Fingerprint key;
  About about;
  uint64_t program_size = 0, executable_size = 0;  // before they were packed
};
constexpr size_t kLabelSize = 4096;  // bytes that always hold it

std::string encode(const Fingerprint& key, const About& about, std::string_view program, std::string_view executable);

// The executable. An error, which says what is wrong, unless every byte is as written; its code is kNotFound where
// nothing is wrong but that the entry is that of another program.
Result<std::string> decode(std::string_view bytes, const Fingerprint& key, std::string_view program);

// Of an entry, or of the first kLabelSize bytes of one, which may still be damaged further on.
Result<Label> read_label(std::string_view front);
// Whether every byte of an entry is as written.
Status verify(std::string_view bytes);

}  // namespace tpu::cache
