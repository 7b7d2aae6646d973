// A place of entries that outlive the process: a directory (directory.h), or whatever a URL names (remote.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/fingerprint.h"

namespace tpu::cache {

inline constexpr std::string_view kEntrySuffix = ".entry";
inline std::string entry_file(const Fingerprint& key) { return key.hex().append(kEntrySuffix); }

class Entries {
 public:
  virtual ~Entries() = default;
  // For messages.
  virtual const std::string& place() const = 0;
  // Bytes of an entry; nothing where there is none. Notes that it was used.
  virtual Result<std::optional<std::string>> read(const Fingerprint& key) = 0;
  // Replaces the entry, if there is one.
  virtual Status write(const Fingerprint& key, std::string_view bytes) = 0;
  virtual void remove(const Fingerprint& key) = 0;
};

}  // namespace tpu::cache
