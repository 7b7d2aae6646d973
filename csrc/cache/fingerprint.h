// What a program is found by. The same in every process, on every rank: no pointer, path or ordinal goes into it.
#pragma once

#include <cstdint>
#include <string>

namespace tpu::cache {

struct Fingerprint {
  uint64_t structure = 0;   // operators, data flow, dtypes, static attributes, outputs, donation
  uint64_t dimensions = 0;  // sizes
  uint64_t options = 0;     // compile options, plugin, target

  std::string hex() const;  // 48 digits
  bool operator==(const Fingerprint&) const = default;
};

}  // namespace tpu::cache
