// The device's own account of its memory: PJRT's CPU plugins keep no statistics. Bytes of live buffers, and for the
// peak also what a running program adds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/value.h"

namespace tpu::runtime {

struct MemoryFigures {  // bytes
  int64_t live = 0, peak = 0, limit = 0, largest = 0;
  int64_t buffers = 0, most_buffers = 0, out_of_memory = 0;
  int64_t allocations = 0, frees = 0, allocated_bytes = 0;  // since the start, or reset_accumulated()
};

class MemoryAccount {
 public:
  // `limit` in bytes; 0: none.
  void set_limit(int64_t bytes);
  MemoryFigures figures() const;
  void reset_peak();
  void reset_accumulated();
  // What is live by type and by the line that made it, the largest first.
  std::string live(size_t most) const;

  // Before `who` takes `outputs` + `temporaries` new bytes: kOutOfMemory where the limit forbids it, with what is live;
  // otherwise notes the peak.
  Status reserve(std::string_view who, int64_t outputs, int64_t temporaries);
  // Every ready value, newest first, under the account's lock: `fn` must be quick and must not free values.
  void each(const std::function<void(const Value&)>& fn) const;
  // References to all ready values.
  std::vector<ValuePtr> snapshot() const;

 private:
  friend class Value;
  void add(Value& value);
  void remove(Value& value);

  mutable std::mutex mutex_;
  std::atomic<bool> limited_{false};  // figures_.limit != 0
  Value* newest_ = nullptr;
  MemoryFigures figures_;
};

// The account of the process's device. Never destroyed.
MemoryAccount& memory();

}  // namespace tpu::runtime
