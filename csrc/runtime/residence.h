// Which executables stay in memory. A plan keeps its program for ever; the executable of a program may be dropped, the
// least recently used first, to keep all of them within a budget, and is then made again when it is wanted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "pjrt/pjrt.h"

namespace tpu::runtime {

class Residence {
 public:
  // An executable in use, which is not dropped as long as this is there. Null where there is none.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : pins_(std::exchange(other.pins_, nullptr)), executable_(std::exchange(other.executable_, nullptr)) {}
    Use& operator=(Use other) noexcept {
      std::swap(pins_, other.pins_);
      std::swap(executable_, other.executable_);
      return *this;
    }
    ~Use() {
      if (pins_ != nullptr) pins_->fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const { return executable_ != nullptr; }
    const pjrt::Executable* operator->() const { return executable_; }

   private:
    friend class Residence;
    Use(std::atomic<uint32_t>* pins, const pjrt::Executable* executable) : pins_(pins), executable_(executable) {}
    std::atomic<uint32_t>* pins_ = nullptr;
    const pjrt::Executable* executable_ = nullptr;
  };

  Residence() = default;
  Residence(const Residence&) = delete;
  ~Residence();

  // Takes no lock.
  Use use() const {
    pins_.fetch_add(1);  // sequentially consistent with the load, as what drops stores before it reads the pins
    Use use(&pins_, executable_.load());
    if (!use) return {};
    if (const uint64_t now = clock_.load(std::memory_order_relaxed); used_.load(std::memory_order_relaxed) != now) {
      used_.store(now, std::memory_order_relaxed);
    }
    return use;
  }
  // `bytes`: what it is taken to cost. Others may be dropped for it. Where there is one by now, that stays.
  Use put(std::unique_ptr<const pjrt::Executable> executable, int64_t bytes);

  struct Figures {
    int64_t programs = 0, bytes = 0, budget = 0, dropped = 0;  // of executables in memory
  };
  static Figures figures();
  // Bytes of all executables; what was put last stays even if it is larger. Drops what is too much.
  static void set_budget(int64_t bytes);
  // Of the process, whoever made them: beyond, executables are dropped too.
  static void set_most_mappings(int64_t count);

 private:
  struct All;
  static All& all();

  static std::atomic<uint64_t> clock_;  // counts put()s: what was used since the last one is equally recent
  mutable std::atomic<uint32_t> pins_{0};
  mutable std::atomic<uint64_t> used_{0};
  std::atomic<const pjrt::Executable*> executable_{nullptr};
  int64_t bytes_ = 0;
};

}  // namespace tpu::runtime
