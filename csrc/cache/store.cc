#include "cache/store.h"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/hash.h"
#include "cache/directory.h"
#include "cache/remote.h"
#include "cache/testing.h"
#include "cache/warning.h"

namespace tpu::cache {
namespace {

constexpr int64_t kBudget = int64_t{4} << 30, kSharedBudget = int64_t{1} << 30;
// An entry that takes longer than this to come is not worth waiting for: most programs are compiled sooner.
constexpr std::chrono::seconds kSlow{2};

std::atomic<void (*)(const std::string&)> sink{nullptr};

std::string default_path() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return std::string(cache) + "/torch_tpu";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    const passwd* user = getpwuid(geteuid());
    home = user != nullptr ? user->pw_dir : nullptr;
  }
  return home != nullptr ? std::string(home) + "/.cache/torch_tpu" : "";
}

// A new directory under an old name is another place.
std::string identity(const std::string& place) {
  struct stat info;
  if (stat(place.c_str(), &info) != 0) return place;
  return place + ":" + std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

}  // namespace

void set_warning_sink(void (*warn)(const std::string&)) { sink.store(warn); }

void warn_once(Warning which, const Status& status) {
  static std::array<std::atomic<bool>, 2> told;
  if (told[static_cast<size_t>(which)].exchange(true)) return;
  const std::string text =
      which == Warning::kLasting
          ? "torch_tpu: the compilation cache is not used where it fails: " + status.message() +
                " (TORCH_TPU_CACHE_DIR)"
          : "torch_tpu: compiled programs are not shared between the processes of this machine: " + status.message() +
                " (TORCH_TPU_SHARED_DIR)";
  if (auto* const warn = sink.load()) {
    warn(text);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

Traffic& traffic(Tier tier) {
  static std::array<Traffic, 4> all;
  return all[static_cast<size_t>(tier)];
}

std::string Store::place() {
  const char* told = std::getenv("TORCH_TPU_CACHE_DIR");
  const std::string path = told != nullptr ? told : default_path();
  return path.starts_with("file://") ? path.substr(7) : path;
}

int64_t Store::budget() {
  const char* bytes = std::getenv("TORCH_TPU_CACHE_BYTES");
  return bytes != nullptr ? std::atoll(bytes) : kBudget;
}

std::unique_ptr<Store> Store::open() {
  const std::string path = place();
  if (path.empty()) return std::make_unique<Store>(nullptr);
  if (path.find("://") != std::string::npos) return std::make_unique<Store>(std::make_unique<Remote>(path), true);
  auto directory = Directory::open(path, budget());
  if (directory.ok()) return std::make_unique<Store>(std::move(*directory));
  warn_once(Warning::kLasting, directory.status());
  return std::make_unique<Store>(nullptr);
}

void Store::set_options(std::string options) {
  options_ = std::move(options);
  options_key_ = hash_bytes(options_);
  if (!on() || shared_ != nullptr) return;
  const char* told = std::getenv("TORCH_TPU_SHARED_DIR");
  const std::string root = told != nullptr ? told : "/dev/shm";
  if (root.empty()) return;
  int64_t budget = kSharedBudget;
  struct statvfs space;
  if (statvfs(root.c_str(), &space) == 0) {
    budget = std::min<int64_t>(budget, static_cast<int64_t>(space.f_blocks * space.f_frsize) / 2);
  }
  if (const char* bytes = std::getenv("TORCH_TPU_SHARED_BYTES")) budget = std::atoll(bytes);
  const std::string users = "torch_tpu-" + std::to_string(geteuid()) + "-";
  const uint64_t id = mix(hash_bytes(identity(lasting_->place())), options_key_);
  auto joined = Shared::join(root, users + std::to_string(id), budget);
  if (!joined.ok()) return warn_once(Warning::kShared, joined.status());
  shared_ = std::move(*joined);
}

void Store::leave() const {
  if (shared_ != nullptr) shared_->leave();
}

std::optional<std::string> Store::look(Entries& entries, const Fingerprint& key, std::string_view program,
                                       std::string* bytes) const {
  const bool lasting = &entries == lasting_.get();
  if (lasting && slow_.load(std::memory_order_relaxed)) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  if (lasting) delay_for_tests();
  auto found = entries.read(key);
  if (!found.ok()) {
    warn_once(lasting ? Warning::kLasting : Warning::kShared, found.status());
    return std::nullopt;
  }
  if (lasting && !remote_ && std::chrono::steady_clock::now() - start > kSlow && !slow_.exchange(true)) {
    warn_once(Warning::kLasting,
              Status(Code::kUnavailable, entries.place() + " takes seconds to answer, and is not asked any more"));
  }
  if (!*found) return std::nullopt;
  auto executable = decode(**found, key, program);
  if (executable.ok()) {
    *bytes = std::move(**found);
    return std::move(*executable);
  }
  if (executable.status().code() == Code::kNotFound) return std::nullopt;  // keys that collide
  entries.remove(key);
  warn_once(lasting ? Warning::kLasting : Warning::kShared,
            executable.status().within("an entry in " + entries.place() + " is dropped"));
  return std::nullopt;
}

}  // namespace tpu::cache
