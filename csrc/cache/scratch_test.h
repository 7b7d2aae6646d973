// A folder of a test, and child processes that end when they are told.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace tpu::cache {

struct Scratch {
  std::filesystem::path path;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "torch_tpu_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(path); }
  size_t files() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator()));
  }
};

// A process that does `work` and ends with what it returns.
template <typename Work>
pid_t child(Work work) {
  const pid_t id = fork();
  if (id == 0) _exit(work());
  return id;
}

// How it ended: its exit status, or -signal.
inline int ended(pid_t id) {
  int status = 0;
  waitpid(id, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace tpu::cache
