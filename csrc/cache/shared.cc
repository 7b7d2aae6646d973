#include "cache/shared.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "cache/lock.h"

namespace tpu::cache {
namespace {

constexpr const char* kMember = "member";
constexpr int kOwn = O_NOFOLLOW | O_CLOEXEC;
// A compile takes less; who has the right for longer is stopped, or hangs.
constexpr std::chrono::seconds kLongestWait{300};

std::atomic<bool (*)()> interrupt_check{nullptr};

bool unlinked(int fd) {
  struct stat info;
  return fstat(fd, &info) != 0 || info.st_nlink == 0;
}

// Of the folder, but for the file `member`.
void remove_contents(int folder) {
  for (const std::string& name : names_in(folder)) {
    if (name != kMember) unlinkat(folder, name.c_str(), 0);
  }
}

// With `member` locked alone. It goes last: who makes a new one then finds an empty folder, or none.
void remove_all(int folder, const std::string& path) {
  remove_contents(folder);
  unlinkat(folder, kMember, 0);
  rmdir(path.c_str());
}

// Folders whose processes were killed.
void remove_abandoned(const std::string& root, const std::string& prefix, const std::string& name) {
  const File top(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!top) return;
  for (const std::string& other : names_in(top.get())) {
    if (!other.starts_with(prefix) || other == name) continue;
    const File folder(openat(top.get(), other.c_str(), O_RDONLY | O_DIRECTORY | kOwn));
    if (!folder || !only_ours(folder.get())) continue;
    const File member(openat(folder.get(), kMember, O_RDWR | kOwn));
    if (!member) rmdir((root + "/" + other).c_str());  // killed before it made one; else it is not empty
    if (member && try_lock(member.get(), Lock::kExclusive) && !unlinked(member.get())) {
      remove_all(folder.get(), root + "/" + other);
    }
  }
}

// Keys whose lease a thread of this process has. Locks are those of a process, so they do not tell threads apart.
struct Held {
  std::mutex mutex;
  std::set<std::string> keys;
};
Held& held() {
  static auto* const held = new Held;
  return *held;
}

std::string lease_of(const Fingerprint& key) { return key.hex().append(".lease"); }

}  // namespace

void set_interrupt_check(bool (*interrupted)()) { interrupt_check.store(interrupted); }

Shared::Shared(std::unique_ptr<Directory> entries, File folder, File member)
    : entries_(std::move(entries)), folder_(std::move(folder)), member_(std::move(member)), process_(getpid()) {}

Result<std::unique_ptr<Shared>> Shared::join(const std::string& root, const std::string& name, int64_t budget) {
  const std::string path = root + "/" + name;
  remove_abandoned(root, name.substr(0, name.rfind('-') + 1), name);
  // Another process may be removing the folder, or about to: then again.
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (attempt > 0) usleep(2000);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed("cannot make " + path);
    File folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | kOwn));
    if (!folder && errno == ENOENT) continue;
    if (!folder) return failed("cannot open " + path);
    if (!only_ours(folder.get())) return invalid(path + " belongs to another user, or others may write to it");
    File member(openat(folder.get(), kMember, O_RDWR | O_CREAT | kOwn, 0600));
    if (!member && errno == ENOENT) continue;
    if (!member) return failed("cannot write to " + path);
    if (try_lock(member.get(), Lock::kExclusive)) {
      if (unlinked(member.get())) continue;
      remove_contents(folder.get());
    }
    if (!try_lock(member.get(), Lock::kShared) || unlinked(member.get())) continue;
    TPU_ASSIGN(auto entries, Directory::open(path, budget));
    return std::unique_ptr<Shared>(new Shared(std::move(entries), std::move(folder), std::move(member)));
  }
  return Status(Code::kUnavailable, path + " is being removed by a process that does not finish");
}

void Shared::leave() {
  if (getpid() != process_ || left_.exchange(true)) return;
  // Of two that leave together each keeps the other from locking it alone, unless it gives up its own lock first.
  try_lock(member_.get(), Lock::kNone);
  if (try_lock(member_.get(), Lock::kExclusive) && !unlinked(member_.get())) {
    remove_all(folder_.get(), entries_->place());
  }
  try_lock(member_.get(), Lock::kNone);
}

Shared::Lease Shared::lease(const Fingerprint& key) {
  const std::string name = lease_of(key);
  {
    const std::lock_guard lock(held().mutex);
    if (left() || !held().keys.insert(name).second) return {};
  }
  Lease lease(this, key);
  const auto start = std::chrono::steady_clock::now();
  useconds_t pause = 500;
  while (true) {
    if (!lease.file_) {
      lease.file_ = File(openat(folder_.get(), name.c_str(), O_RDWR | O_CREAT | kOwn, 0600));
      if (!lease.file_) return {};
    }
    if (try_lock(lease.file_.get(), Lock::kExclusive)) {
      if (!unlinked(lease.file_.get())) return lease;
      lease.file_ = File();  // of the one who had it before
      continue;
    }
    const auto check = interrupt_check.load();
    if ((check != nullptr && check()) || std::chrono::steady_clock::now() - start > kLongestWait) break;
    usleep(pause);
    pause = std::min<useconds_t>(pause * 2, 10'000);
  }
  lease.file_ = File();
  return {};
}

Shared::Lease::~Lease() {
  if (owner_ == nullptr) return;
  const std::string name = lease_of(key_);
  if (file_) {
    unlinkat(owner_->folder_.get(), name.c_str(), 0);
    file_ = File();
  }
  const std::lock_guard lock(held().mutex);
  held().keys.erase(name);
}

}  // namespace tpu::cache
