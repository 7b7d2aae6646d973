#include "runtime/memory.h"

#include <algorithm>
#include <map>
#include <vector>

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
  if (buffer_) memory().remove(*this);
}

void MemoryAccount::set_limit(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  figures_.limit = bytes;
}

MemoryFigures MemoryAccount::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

void MemoryAccount::reset_peak() {
  const std::lock_guard lock(mutex_);
  figures_.peak = figures_.live;
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
  ++figures_.buffers;
  ++figures_.allocations;
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

Status MemoryAccount::reserve(int64_t outputs, int64_t temporaries) {
  const std::lock_guard lock(mutex_);
  const int64_t wanted = outputs + temporaries;
  if (figures_.limit == 0 || figures_.live + wanted <= figures_.limit) {
    figures_.peak = std::max(figures_.peak, figures_.live + wanted);
    return {};
  }
  ++figures_.out_of_memory;
  struct Kind {
    int64_t count = 0, bytes = 0;
  };
  std::map<std::string, Kind> kinds;
  for (const Value* v = newest_; v != nullptr; v = v->older_) {
    Kind& kind = kinds[v->type->str()];
    ++kind.count;
    kind.bytes += v->type->bytes();
  }
  std::vector<std::pair<std::string, Kind>> sorted(kinds.begin(), kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string text = "tpu out of memory: a program needs " + std::to_string(outputs) + " bytes for its results and " +
                     std::to_string(temporaries) + " for temporaries; " + std::to_string(figures_.live) + " of " +
                     std::to_string(figures_.limit) + " bytes are in use. Live, by size:";
  for (size_t i = 0; i < std::min<size_t>(sorted.size(), 8); ++i) {
    text += "\n  " + std::to_string(sorted[i].second.bytes) + " bytes in " + std::to_string(sorted[i].second.count) +
            " x " + sorted[i].first;
  }
  return {Code::kOutOfMemory, text};
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
