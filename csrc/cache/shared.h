// The machine's tier: what processes of one user compiled, in shared memory while any of them lives. What several need
// at the same time one of them compiles, and the others wait for it.
//
// Each process holds a shared lock on the file `member`. Who can lock it alone is the only one there: at the start it
// removes what killed processes left, at the end everything. The lock of a process that dies is gone, so the same holds
// for the right to compile a program, a lock on a file of its key.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/status.h"
#include "cache/directory.h"
#include "cache/file.h"
#include "cache/fingerprint.h"

namespace tpu::cache {

class Shared {
 public:
  // The folder `name` of `root`. Removes other folders of this kind whose processes are gone.
  static Result<std::unique_ptr<Shared>> join(const std::string& root, const std::string& name, int64_t budget);
  ~Shared() { leave(); }
  Shared(const Shared&) = delete;

  Directory& entries() { return *entries_; }

  // The right to compile a program, given up at the end.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), file_(std::move(other.file_)), key_(other.key_) {}
    Lease& operator=(Lease other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(file_, other.file_);
      std::swap(key_, other.key_);
      return *this;
    }
    ~Lease();
    explicit operator bool() const { return owner_ != nullptr; }

   private:
    friend class Shared;
    Lease(Shared* owner, const Fingerprint& key) : owner_(owner), key_(key) {}
    Shared* owner_ = nullptr;
    File file_;
    Fingerprint key_;
  };
  // Waits while another process has it. Nothing where the wait is not worth it, so that the caller compiles for itself:
  // another thread of this process has it, a signal came for Python, or it took too long.
  Lease lease(const Fingerprint& key);

  // The last one to leave removes the folder. Called once more, it does nothing; so does everything else afterwards.
  void leave();
  bool left() const { return left_.load(std::memory_order_relaxed); }

 private:
  Shared(std::unique_ptr<Directory> entries, File folder, File member);
  const std::unique_ptr<Directory> entries_;
  const File folder_, member_;
  const int process_;
  std::atomic<bool> left_{false};
};

// Whether the calling thread should not go on waiting: asked about every hundredth of a second.
void set_interrupt_check(bool (*interrupted)());

}  // namespace tpu::cache
