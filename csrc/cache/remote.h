// Entries behind a URL. The bytes are moved by threads of somebody else (Python's fsspec), who take tasks here: a
// compile never needs the interpreter, whose lock may be held by a thread that waits for the compile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "cache/entries.h"

namespace tpu::cache {

class Courier {
 public:
  struct Task {
    enum Kind { kGet, kPut, kRemove } kind;
    uint64_t id;
    std::string name;
    std::string bytes;  // of kPut
  };

  // The one of this process.
  static Courier& get();
  // A new one: in a forked child, where the threads of the old one are not.
  static void reset();

  // --- for who moves ---
  // Waits for the next task of a lane: reads, or the others. Nothing: the lane is closed.
  std::optional<Task> next(bool reads);
  // The bytes that were read, if there are any.
  void done(uint64_t id, Result<std::optional<std::string>> result);

  // --- for the store ---
  // Waits at most this long; a miss at once where an earlier read still goes on.
  Result<std::optional<std::string>> read(std::string name, std::chrono::milliseconds limit);
  // Returns at once. An error is that of an earlier one.
  Status send(Task::Kind kind, std::string name, std::string bytes);
  // Waits at most this long for what is to be written, then ends the lanes.
  void close(std::chrono::milliseconds limit);

 private:
  static constexpr size_t kMostWaiting = size_t{1} << 28;  // bytes to be written; what is beyond is not kept
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> reads_, others_;
  uint64_t last_ = 0, reading_ = 0, moving_ = 0;  // ids; 0: none
  bool wanted_ = false;                           // somebody waits for the read
  std::optional<Result<std::optional<std::string>>> answer_;
  Status failed_;  // the first of the others that failed, until it is told
  bool closed_ = false;
};

class Remote final : public Entries {
 public:
  explicit Remote(std::string url) : url_(std::move(url)) {}
  const std::string& place() const override { return url_; }
  Result<std::optional<std::string>> read(const Fingerprint& key) override;
  Status write(const Fingerprint& key, std::string_view bytes) override;
  void remove(const Fingerprint& key) override;

 private:
  const std::string url_;
};

// Seconds that a read, and at the end of the process all writes together, may take: TORCH_TPU_CACHE_TIMEOUT.
std::chrono::milliseconds remote_limit();

// Whether the calling thread keeps the courier's threads from running, so that it must not wait for them.
void set_blocks_couriers(bool (*blocks)());

}  // namespace tpu::cache
