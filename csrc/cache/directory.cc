#include "cache/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "cache/file.h"

namespace tpu::cache {
namespace {

constexpr std::string_view kUnfinished = ".part";
constexpr time_t kAbandoned = 3600;  // seconds after which an unfinished file has no writer any more

Status make(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0777);  // where it fails, so does the last
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed("cannot make " + path);
  return {};
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("cannot write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Directory>> Directory::open(const std::string& path, int64_t budget) {
  TPU_RETURN_IF_ERROR(make(path));
  File file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file) return failed("cannot open " + path);
  if (!only_ours(file.get())) {
    return invalid(
        path + " can be written by other users, and executables are code: take a directory of your own (chmod 700)");
  }
  return std::unique_ptr<Directory>(new Directory(path, fcntl(file.get(), F_DUPFD_CLOEXEC, 0), budget));
}

Directory::~Directory() { close(fd_); }

Result<std::optional<std::string>> Directory::read(const Fingerprint& key) {
  const File file(openat(fd_, entry_file(key).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return std::optional<std::string>();
    return failed("cannot read " + path_);
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return failed("cannot read " + path_);
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) return invalid(path_ + " has entries of other users");
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("cannot read " + path_);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  bytes.resize(have);
  futimens(file.get(), nullptr);
  return std::optional(std::move(bytes));
}

Status Directory::write(const Fingerprint& key, std::string_view bytes) {
  static std::atomic<uint64_t> number{0};
  const std::string unfinished =
      std::to_string(getpid()) + "-" + std::to_string(number.fetch_add(1)).append(kUnfinished);
  Status status;
  {
    const File file(openat(fd_, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    status = file ? write_all(file.get(), bytes) : failed("cannot write");
  }
  if (status.ok() && renameat(fd_, unfinished.c_str(), fd_, entry_file(key).c_str()) != 0)
    status = failed("cannot write");
  if (!status.ok()) {
    unlinkat(fd_, unfinished.c_str(), 0);
    return status.within(path_);
  }
  keep_budget(static_cast<int64_t>(bytes.size()));
  return {};
}

void Directory::remove(const Fingerprint& key) { unlinkat(fd_, entry_file(key).c_str(), 0); }

void Directory::keep_budget(int64_t added) {
  struct Found {
    std::string name;
    timespec used;
    int64_t size;
  };
  const std::lock_guard lock(mutex_);
  bytes_ += added;
  added_ += added;
  if (bytes_ >= added && bytes_ <= budget_ && added_ <= budget_ / 16) return;
  std::vector<Found> found;
  bytes_ = added_ = 0;
  for (const std::string& name : names_in(fd_)) {
    struct stat info;
    if (fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (name.ends_with(kUnfinished)) {
      if (info.st_mtime + kAbandoned < time(nullptr)) unlinkat(fd_, name.c_str(), 0);
    } else if (name.ends_with(kEntrySuffix)) {
      found.push_back({name, info.st_mtim, info.st_size});
      bytes_ += info.st_size;
    }
  }
  if (bytes_ <= budget_) return;
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Found& entry : found) {  // somewhat further, so that not every write lists the directory
    if (bytes_ <= budget_ - budget_ / 8) break;
    if (unlinkat(fd_, entry.name.c_str(), 0) == 0) bytes_ -= entry.size;
  }
}

}  // namespace tpu::cache
