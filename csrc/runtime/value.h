// A Value is an immutable dense array: promised by a node of a region (deferred), or held by the device (ready), or
// lost to an error (failed). Reference-counted without locks; values never refer to each other, so freeing one never
// recurses however long the chain that made it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "hlo/type.h"
#include "pjrt/pjrt.h"
#include "runtime/line.h"

namespace tpu::runtime {

class Region;

class Value {
 public:
  explicit Value(const hlo::Type* type) : type(type) {}
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  const hlo::Type* const type;
  Line line;  // that made it, for accounts of what is live

  // Deferred: the region whose cut will fill this value, else null. Cleared after `buffer` or `error` is set, so a
  // thread that reads null may read those.
  Region* region() const { return region_.load(std::memory_order_acquire); }
  uint32_t index() const { return index_; }  // result number in region()
  void defer(Region* region, uint32_t index) {
    index_ = index;
    region_.store(region, std::memory_order_relaxed);
  }
  // Ready. Takes the buffer into the device's account.
  void set(pjrt::Buffer buffer);
  void fail(Status error);
  // The buffer was given to a launch that may reuse its memory: out of the account, and nobody reads it again.
  void donate();

  const pjrt::Buffer& buffer() const { return buffer_; }
  const Status& error() const { return error_; }

  void retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Exact only for a caller that holds a reference and knows that nobody else can gain one.
  uint32_t references() const { return refs_.load(std::memory_order_acquire); }

 private:
  friend class MemoryAccount;
  ~Value();

  std::atomic<uint32_t> refs_{1};
  uint32_t index_ = 0;
  std::atomic<Region*> region_{nullptr};
  pjrt::Buffer buffer_;
  Status error_;
  // Links of the account's list of ready values.
  Value* newer_ = nullptr;
  Value* older_ = nullptr;
};

class ValuePtr {
 public:
  ValuePtr() = default;
  static ValuePtr adopt(Value* value) {  // takes over one reference
    ValuePtr p;
    p.value_ = value;
    return p;
  }
  static ValuePtr share(Value* value) {
    if (value != nullptr) value->retain();
    return adopt(value);
  }
  static ValuePtr make(const hlo::Type* type) { return adopt(new Value(type)); }
  ValuePtr(const ValuePtr& other) : ValuePtr(share(other.value_)) {}
  ValuePtr(ValuePtr&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  ValuePtr& operator=(ValuePtr other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~ValuePtr() {
    if (value_ != nullptr) value_->release();
  }
  Value* get() const { return value_; }
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }
  explicit operator bool() const { return value_ != nullptr; }

 private:
  Value* value_ = nullptr;
};

}  // namespace tpu::runtime
