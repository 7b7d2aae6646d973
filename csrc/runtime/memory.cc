#include "runtime/memory.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "runtime/device.h"

namespace tpu::runtime {

MemoryAccount& memory() {
  static auto* const account = new MemoryAccount;
  return *account;
}

void Value::set(pjrt::Buffer buffer) {
  buffer_ = std::move(buffer);
  memory().add(*this);
  region_.store(nullptr, std::memory_order_release);
}

void Value::fail(Status error) {
  error_ = std::move(error);
  region_.store(nullptr, std::memory_order_release);
}

void Value::donate() {
  memory().remove(*this);
  buffer_ = {};
}

Value::~Value() {
  if (!buffer_) return;
  if (Device::forked()) {  // the plugin's threads are gone, and its locks and ours may be held for ever
    new pjrt::Buffer(std::move(buffer_));
    return;
  }
  memory().remove(*this);
}

void MemoryAccount::set_limit(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  figures_.limit = bytes;
  limited_.store(bytes != 0, std::memory_order_relaxed);
}

MemoryFigures MemoryAccount::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

void MemoryAccount::reset_peak() {
  const std::lock_guard lock(mutex_);
  figures_.peak = figures_.live;
  figures_.most_buffers = figures_.buffers;
}

void MemoryAccount::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  figures_.allocations = figures_.frees = figures_.out_of_memory = 0;
  figures_.allocated_bytes = figures_.live;
}

void MemoryAccount::add(Value& value) {
  const int64_t bytes = value.type->bytes();
  const std::lock_guard lock(mutex_);
  value.older_ = newest_;
  if (newest_ != nullptr) newest_->newer_ = &value;
  newest_ = &value;
  figures_.live += bytes;
  figures_.peak = std::max(figures_.peak, figures_.live);
  figures_.largest = std::max(figures_.largest, bytes);
  figures_.most_buffers = std::max(figures_.most_buffers, ++figures_.buffers);
  ++figures_.allocations;
  figures_.allocated_bytes += bytes;
}

void MemoryAccount::remove(Value& value) {
  const std::lock_guard lock(mutex_);
  (value.newer_ != nullptr ? value.newer_->older_ : newest_) = value.older_;
  if (value.older_ != nullptr) value.older_->newer_ = value.newer_;
  value.newer_ = value.older_ = nullptr;
  figures_.live -= value.type->bytes();
  --figures_.buffers;
  ++figures_.frees;
}

Status MemoryAccount::reserve(std::string_view who, int64_t outputs, int64_t temporaries) {
  if (temporaries == 0 && !limited_.load(std::memory_order_relaxed)) return {};  // add() notes the peak
  MemoryFigures now;
  {
    const std::lock_guard lock(mutex_);
    const int64_t wanted = figures_.live + outputs + temporaries;
    if (figures_.limit == 0 || wanted <= figures_.limit) {
      figures_.peak = std::max(figures_.peak, wanted);
      return {};
    }
    ++figures_.out_of_memory;
    now = figures_;
  }
  const std::string line = describe(current_line());
  return {Code::kOutOfMemory, "tpu out of memory: " + std::string(who) + (line.empty() ? "" : " at " + line) +
                                  " needs " + std::to_string(outputs) + " bytes for its results and " +
                                  std::to_string(temporaries) + " for temporaries; " + std::to_string(now.live) +
                                  " of " + std::to_string(now.limit) + " bytes are in use. Live, by size:" + live(8)};
}

std::string MemoryAccount::live(size_t most) const {
  struct Kind {
    const hlo::Type* type;
    Line line;
    int64_t count, bytes;
  };
  std::vector<Kind> kinds;
  {
    std::map<std::tuple<const hlo::Type*, const void*, int32_t>, size_t> index;
    const std::lock_guard lock(mutex_);
    for (const Value* v = newest_; v != nullptr; v = v->older_) {
      const auto [at, is_new] = index.emplace(std::tuple(v->type, v->line.code, v->line.instruction), kinds.size());
      if (is_new) kinds.push_back({v->type, v->line, 0, 0});
      ++kinds[at->second].count;
      kinds[at->second].bytes += v->type->bytes();
    }
  }
  std::stable_sort(kinds.begin(), kinds.end(), [](const Kind& a, const Kind& b) { return a.bytes > b.bytes; });
  std::string text;
  for (size_t i = 0; i < std::min(kinds.size(), most); ++i) {
    const Kind& kind = kinds[i];
    const std::string line = describe(kind.line);
    text += "\n  " + std::to_string(kind.bytes) + " bytes in " + std::to_string(kind.count) + " x " + kind.type->str() +
            (line.empty() ? "" : " made at " + line);
  }
  if (kinds.size() > most) text += "\n  and " + std::to_string(kinds.size() - most) + " smaller kinds";
  return text;
}

void MemoryAccount::each(const std::function<void(const Value&)>& fn) const {
  const std::lock_guard lock(mutex_);
  for (const Value* v = newest_; v != nullptr; v = v->older_) fn(*v);
}

std::vector<ValuePtr> MemoryAccount::snapshot() const {
  std::vector<ValuePtr> out;
  const std::lock_guard lock(mutex_);
  for (Value* v = newest_; v != nullptr; v = v->older_) {
    // A value whose last reference is being dropped waits for this lock in its destructor: leave it.
    uint32_t refs = v->refs_.load(std::memory_order_relaxed);
    while (refs != 0 && !v->refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_acq_rel)) {
    }
    if (refs != 0) out.push_back(ValuePtr::adopt(v));
  }
  return out;
}

}  // namespace tpu::runtime
