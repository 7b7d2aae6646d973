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
#include "cache/entries.h"

namespace tpu::cache {

class Directory final : public Entries {
 public:
  // Makes it, with mode 0700, where it does not exist. `budget`: bytes, above which the entries that were not used for
  // longest are removed. Errors say what is wrong with it and what to do.
  static Result<std::unique_ptr<Directory>> open(const std::string& path, int64_t budget);
  ~Directory() override;
  Directory(const Directory&) = delete;

  const std::string& place() const override { return path_; }
  Result<std::optional<std::string>> read(const Fingerprint& key) override;
  Status write(const Fingerprint& key, std::string_view bytes) override;
  void remove(const Fingerprint& key) override;

 private:
  Directory(std::string path, int fd, int64_t budget) : path_(std::move(path)), fd_(fd), budget_(budget) {}
  void keep_budget(int64_t added);

  const std::string path_;
  const int fd_;
  const int64_t budget_;
  std::mutex mutex_;
  int64_t bytes_ = -1;  // of all entries, as far as is known; -1: not counted yet
  int64_t added_ = 0;   // since they were counted, by this process: others add as much unseen
};

}  // namespace tpu::cache
