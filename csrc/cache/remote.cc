#include "cache/remote.h"

#include <atomic>
#include <cstdlib>

#include "cache/warning.h"

namespace tpu::cache {
namespace {

std::atomic<Courier*> courier{nullptr};
std::atomic<bool (*)()> blocks_couriers{nullptr};

}  // namespace

void set_blocks_couriers(bool (*blocks)()) { blocks_couriers.store(blocks); }

std::chrono::milliseconds remote_limit() {
  static const char* const told = std::getenv("TORCH_TPU_CACHE_TIMEOUT");
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * (told != nullptr ? std::atof(told) : 10)));
}

Courier& Courier::get() {
  if (Courier* const there = courier.load()) return *there;
  Courier* const made = new Courier;  // never destroyed: threads wait in it
  Courier* expected = nullptr;
  if (courier.compare_exchange_strong(expected, made)) return *made;
  delete made;
  return *expected;
}

void Courier::reset() { courier.store(new Courier); }

std::optional<Courier::Task> Courier::next(bool reads) {
  std::unique_lock lock(mutex_);
  std::deque<Task>& lane = reads ? reads_ : others_;
  changed_.wait(lock, [&] { return closed_ || !lane.empty(); });
  if (closed_) return std::nullopt;
  Task task = std::move(lane.front());
  lane.pop_front();
  (reads ? reading_ : moving_) = task.id;
  return task;
}

void Courier::done(uint64_t id, Result<std::optional<std::string>> result) {
  const std::lock_guard lock(mutex_);
  if (id == reading_) {
    reading_ = 0;
    if (wanted_) answer_ = std::move(result);
  } else if (id == moving_) {
    moving_ = 0;
    if (!result.ok() && failed_.ok()) failed_ = result.status();
  }
  changed_.notify_all();
}

Result<std::optional<std::string>> Courier::read(std::string name, std::chrono::milliseconds limit) {
  if (const auto blocks = blocks_couriers.load(); blocks != nullptr && blocks()) return std::optional<std::string>();
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto late = [&] {
    return Status(Code::kUnavailable, "no answer within " + std::to_string(limit.count()) + " ms");
  };
  // Other threads' reads come first, but one that nobody waits for any more is not worth waiting for.
  if (!changed_.wait_until(lock, deadline, [&] { return closed_ || !wanted_; })) return late();
  if (closed_ || reading_ != 0) return std::optional<std::string>();
  wanted_ = true;
  reads_.push_back({Task::kGet, ++last_, std::move(name), {}});
  changed_.notify_all();
  changed_.wait_until(lock, deadline, [&] { return closed_ || answer_; });
  wanted_ = false;
  changed_.notify_all();
  if (answer_) {
    auto answer = std::move(*answer_);
    answer_.reset();
    return answer;
  }
  reads_.clear();
  if (closed_) return std::optional<std::string>();
  return late();
}

Status Courier::send(Task::Kind kind, std::string name, std::string bytes) {
  const std::lock_guard lock(mutex_);
  if (closed_) return {};
  Status earlier = std::exchange(failed_, {});
  size_t waiting = bytes.size();
  for (const Task& task : others_) waiting += task.bytes.size();
  if (waiting > kMostWaiting) {
    return earlier.ok() ? Status(Code::kUnavailable, "it is written to more slowly than programs are compiled")
                        : earlier;
  }
  others_.push_back({kind, ++last_, std::move(name), std::move(bytes)});
  changed_.notify_all();
  return earlier;
}

void Courier::close(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, limit, [&] { return others_.empty() && moving_ == 0; }) && failed_.ok()) {
    failed_ =
        Status(Code::kUnavailable, std::to_string(others_.size() + 1) + " entries were not written before the end");
  }
  closed_ = true;
  changed_.notify_all();
  if (!failed_.ok()) warn_once(Warning::kLasting, failed_);
}

Result<std::optional<std::string>> Remote::read(const Fingerprint& key) {
  auto found = Courier::get().read(entry_file(key), remote_limit());
  if (!found.ok()) return found.status().within(url_);
  return found;
}

Status Remote::write(const Fingerprint& key, std::string_view bytes) {
  return Courier::get().send(Courier::Task::kPut, entry_file(key), std::string(bytes)).within(url_);
}

void Remote::remove(const Fingerprint& key) { (void)Courier::get().send(Courier::Task::kRemove, entry_file(key), {}); }

}  // namespace tpu::cache
