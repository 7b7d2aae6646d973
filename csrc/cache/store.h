// The persistent tier: executables in a directory of the user, found by fingerprint. Whatever fails is a miss, and the
// first failure of a process is told once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/directory.h"

namespace tpu::cache {

class Store {
 public:
  // Of the environment: TORCH_TPU_CACHE_DIR is the directory, or empty for no cache; unset,
  // ${XDG_CACHE_HOME:-~/.cache}/torch_tpu. TORCH_TPU_CACHE_BYTES is the budget (default 4 GiB).
  static Store open();
  explicit Store(std::unique_ptr<Directory> directory) : directory_(std::move(directory)) {}  // null: always a miss

  bool on() const { return directory_ != nullptr; }
  // An executable, in the plugin's serialized form.
  std::optional<std::string> find(const Fingerprint& key, std::string_view program) const;
  void keep(const Fingerprint& key, std::string_view program, std::string_view executable) const;
  // The plugin does not take what find() gave.
  void drop(const Fingerprint& key) const;

 private:
  std::unique_ptr<Directory> directory_;
};

// Where warnings go; standard error, if nobody says. `warn` may be called from any thread, and must not throw.
void set_warning_sink(void (*warn)(const std::string&));

}  // namespace tpu::cache
