// An advisory lock of this process on a file. Of the kind that a forked child does not have, and that the kernel takes
// from a process that dies; closing any descriptor of the file gives it up.
#pragma once

#include <fcntl.h>

namespace tpu::cache {

enum class Lock : short { kShared = F_RDLCK, kExclusive = F_WRLCK, kNone = F_UNLCK };

// Never waits. Changes the lock at once where this process has another; false: some other process is in the way.
inline bool try_lock(int fd, Lock kind) {
  struct flock how = {};
  how.l_type = static_cast<short>(kind);
  how.l_whence = SEEK_SET;
  return fcntl(fd, F_SETLK, &how) == 0;
}

}  // namespace tpu::cache
