// A directory of entries, shared by any number of processes of one user. An entry appears whole or not at all: it is
// written under another name and renamed. Executables are code, so a directory that others may write is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/fingerprint.h"

namespace tpu::cache {

class Directory {
 public:
  // Makes it, with mode 0700, where it does not exist. `budget`: bytes, above which the entries that were not used for
  // longest are removed. Errors say what is wrong with it and what to do.
  static Result<std::unique_ptr<Directory>> open(const std::string& path, int64_t budget);
  ~Directory();
  Directory(const Directory&) = delete;

  const std::string& path() const { return path_; }

  // Bytes of an entry; nothing where there is none. Notes that it was used.
  Result<std::optional<std::string>> read(const Fingerprint& key) const;
  // Replaces the entry, if there is one.
  Status write(const Fingerprint& key, std::string_view bytes);
  void remove(const Fingerprint& key) const;

 private:
  Directory(std::string path, int fd, int64_t budget) : path_(std::move(path)), fd_(fd), budget_(budget) {}
  void keep_budget(int64_t added);

  const std::string path_;
  const int fd_;
  const int64_t budget_;
  std::mutex mutex_;
  int64_t bytes_ = -1;  // of all entries, as far as is known; -1: not counted yet
};

}  // namespace tpu::cache
