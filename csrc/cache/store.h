// The tiers beyond the process's own memory: shared memory (shared.h), then a directory or what a URL names. Whatever
// fails is a miss, and the first failure of each tier is told once.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/entries.h"
#include "cache/entry.h"
#include "cache/shared.h"

namespace tpu::cache {

enum class Tier { kCompiled, kShared, kDisk, kRemote };

class Store {
 public:
  // Of the environment: TORCH_TPU_CACHE_DIR is the directory or the URL, or empty for no cache; unset,
  // ${XDG_CACHE_HOME:-~/.cache}/torch_tpu.
  static std::string place();
  // TORCH_TPU_CACHE_BYTES (default 4 GiB).
  static int64_t budget();

  static std::unique_ptr<Store> open();
  explicit Store(std::unique_ptr<Entries> lasting, bool remote = false)  // null: always a miss
      : lasting_(std::move(lasting)), remote_(remote) {}

  bool on() const { return lasting_ != nullptr; }
  // Everything that an executable depends on beside its program. Before the first search; joins the other processes of
  // the user that have the same options and place.
  void set_options(std::string options);
  uint64_t options_key() const { return options_key_; }
  // Before the process ends.
  void leave() const;

 private:
  friend class Search;
  // An executable, or nothing; takes away what is damaged.
  std::optional<std::string> look(Entries& entries, const Fingerprint& key, std::string_view program,
                                  std::string* bytes) const;
  std::unique_ptr<Entries> lasting_;
  bool remote_ = false;
  std::unique_ptr<Shared> shared_;
  std::string options_;
  uint64_t options_key_ = 0;
  mutable std::atomic<bool> slow_{false};
};

// One program's way through the tiers. While it lives, other processes that want the program wait for it, where it is
// to be compiled.
class Search {
 public:
  // `program`: what find() and keep() compare, beside the options.
  Search(const Store& store, const Fingerprint& key, std::string_view program);

  struct Found {
    std::string executable;  // as the plugin serialized it
    Tier from;
  };
  // What is to be tried next; nothing where it has to be compiled.
  std::optional<Found> next();
  // What next() gave is good, or the plugin does not take it.
  void accept();
  void reject();
  // It was compiled.
  void keep(const About& about, std::string_view executable);
  // The plugin has no serialized form of it: processes that wait for each other would wait in vain, here and later.
  void cannot_keep();

 private:
  std::optional<Found> in(Entries& entries, Tier tier);
  void share(std::string_view bytes);
  const Store& store_;
  const Fingerprint key_;
  const std::string program_;
  Shared::Lease lease_;
  std::string bytes_;  // the entry that next() gave
  Tier from_ = Tier::kCompiled;
  int stage_ = 0;
};

// Bytes of entries that were read and written since the process began, by tier.
struct Traffic {
  std::atomic<int64_t> read{0}, written{0};
};
Traffic& traffic(Tier tier);

// Where warnings go; standard error, if nobody says. `warn` may be called from any thread, and must not throw.
void set_warning_sink(void (*warn)(const std::string&));

}  // namespace tpu::cache
