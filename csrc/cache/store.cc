#include "cache/store.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cache/entry.h"

namespace tpu::cache {
namespace {

constexpr int64_t kBudget = int64_t{4} << 30;

std::atomic<void (*)(const std::string&)> sink{nullptr};

void warn_once(const Status& status) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  const std::string text =
      "torch_tpu: the compilation cache is not used where it fails: " + status.message() + " (TORCH_TPU_CACHE_DIR)";
  if (auto* const warn = sink.load()) {
    warn(text);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

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

}  // namespace

void set_warning_sink(void (*warn)(const std::string&)) { sink.store(warn); }

Store Store::open() {
  const char* told = std::getenv("TORCH_TPU_CACHE_DIR");
  std::string path = told != nullptr ? told : default_path();
  if (path.starts_with("file://")) path = path.substr(7);
  if (path.empty()) return Store(nullptr);
  if (path.find("://") != std::string::npos) {
    warn_once(Status(Code::kUnimplemented, path + " is no local directory"));
    return Store(nullptr);
  }
  const char* bytes = std::getenv("TORCH_TPU_CACHE_BYTES");
  auto directory = Directory::open(path, bytes != nullptr ? std::atoll(bytes) : kBudget);
  if (directory.ok()) return Store(std::move(*directory));
  warn_once(directory.status());
  return Store(nullptr);
}

std::optional<std::string> Store::find(const Fingerprint& key, std::string_view program) const {
  if (!on()) return std::nullopt;
  auto bytes = directory_->read(key);
  if (!bytes.ok()) {
    warn_once(bytes.status());
    return std::nullopt;
  }
  if (!*bytes) return std::nullopt;
  auto executable = decode(**bytes, key, program);
  if (executable.ok()) return std::move(*executable);
  directory_->remove(key);
  warn_once(executable.status().within("an entry in " + directory_->path() + " is dropped"));
  return std::nullopt;
}

void Store::keep(const Fingerprint& key, std::string_view program, std::string_view executable) const {
  if (!on()) return;
  if (const Status status = directory_->write(key, encode(key, program, executable)); !status.ok()) warn_once(status);
}

void Store::drop(const Fingerprint& key) const {
  if (on()) directory_->remove(key);
}

}  // namespace tpu::cache
