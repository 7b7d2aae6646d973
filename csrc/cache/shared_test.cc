// Processes that want the same programs at the same time.
#include "cache/shared.h"

#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <random>
#include <vector>

#include "cache/scratch_test.h"
#include "cache/store.h"

namespace tpu::cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "torch_tpu-0-1";
constexpr int kPrograms = 50;

// Gets all programs, compiling those that nobody has, each of which leaves a byte in a file of its own. Dies in the
// middle of a compile with a chance of one in `mortality`. The result is 0 where all of them were right.
int get_all(const fs::path& root, unsigned seed, unsigned mortality) {
  setenv("TORCH_TPU_SHARED_DIR", (root / "shm").c_str(), 1);
  auto directory = Directory::open(root / "cache", 1 << 30);
  if (!directory.ok()) return 1;
  Store store(std::move(*directory));
  store.set_options("options");
  std::minstd_rand chance(seed);
  for (int i = 0; i < kPrograms; ++i) {
    const std::string program = "program " + std::to_string(i), code = "code " + std::to_string(i);
    Search search(store, {static_cast<uint64_t>(i), 0, 0}, program);
    if (const auto found = search.next()) {
      if (found->executable != code) return 2;
      continue;
    }
    std::ofstream(root / ("compiled" + std::to_string(i)), std::ios::app) << "x";
    usleep(2000);
    if (mortality > 0 && chance() % mortality == 0) kill(getpid(), SIGKILL);
    search.keep({}, code);
  }
  store.leave();
  return 0;
}

int64_t compiles(const fs::path& root) {
  int64_t count = 0;
  for (int i = 0; i < kPrograms; ++i)
    count += static_cast<int64_t>(fs::file_size(root / ("compiled" + std::to_string(i))));
  return count;
}

struct Machine : Scratch {
  Machine() { fs::create_directory(path / "shm"); }
  bool empty() const { return fs::is_empty(path / "shm"); }
};

TEST_CASE("eight processes that start together compile each program once, and leave nothing") {
  const Machine machine;
  std::vector<pid_t> processes;
  for (unsigned i = 0; i < 8; ++i) processes.push_back(child([&] { return get_all(machine.path, i, 0); }));
  for (const pid_t p : processes) CHECK(ended(p) == 0);
  CHECK(compiles(machine.path) == kPrograms);
  CHECK(machine.empty());
}

TEST_CASE("what lies in the directory is taken without waiting for who may be compiling it") {
  const Machine machine;
  const auto opened = [&](const fs::path& shared) {
    setenv("TORCH_TPU_SHARED_DIR", shared.c_str(), 1);
    auto store = std::make_unique<Store>(std::move(*Directory::open(machine.path / "cache", 1 << 30)));
    store->set_options("options");
    return store;
  };
  const Fingerprint key{1, 0, 0};
  const pid_t reader = child([&] {
    const auto store = opened(machine.path / "shm");
    Search compiling(*store, key, "program");
    if (compiling.next()) return 1;
    Search(*opened(""), key, "program").keep({}, "code");
    const pid_t other = child([&] {
      alarm(60);
      const auto found = Search(*opened(machine.path / "shm"), key, "program").next();
      return found && found->from == Tier::kDisk ? 0 : 1;
    });
    const int result = ended(other);
    store->leave();
    return result;
  });
  CHECK(ended(reader) == 0);
}

TEST_CASE("when the one that compiles is killed, another one does") {
  const Machine machine;
  int killed = 0, rounds = 0;
  // Which process compiles is a matter of time, and the eighth is never killed: until enough were.
  for (unsigned round = 0; round < 5 || (killed <= 10 && round < 50); ++round) {
    ++rounds;
    fs::remove_all(machine.path / "cache");
    std::vector<pid_t> processes;
    for (unsigned i = 0; i < 8; ++i) {
      processes.push_back(child([&] { return get_all(machine.path, 1 + round * 8 + i, i < 7 ? 8 : 0); }));
    }
    for (size_t i = 0; i < processes.size(); ++i) {
      const int how = ended(processes[i]);
      CHECK((how == 0 || (i < 7 && how == -SIGKILL)));
      killed += how != 0;
    }
  }
  CHECK(killed > 10);
  CHECK(compiles(machine.path) == rounds * kPrograms + killed);
}

TEST_CASE("what killed processes leave, the next one removes") {
  const Machine machine;
  const fs::path shm = machine.path / "shm";
  for (const char* name : {kName, "torch_tpu-0-2", "torch_tpu-1-1"}) {
    const pid_t dying = child([&] {
      auto shared = Shared::join(shm, name, 1 << 20);
      if (!shared.ok() || !(*shared)->entries().write({1, 2, 3}, "entry").ok()) return 1;
      return kill(getpid(), SIGKILL);
    });
    CHECK(ended(dying) == -SIGKILL);
    CHECK(fs::exists(shm / name / "member"));
  }
  const pid_t next = child([&] {
    auto shared = Shared::join(shm, kName, 1 << 20);
    if (!shared.ok()) return 1;
    const auto left = (*shared)->entries().read({1, 2, 3});
    if (!left.ok() || *left) return 2;
    if (fs::exists(shm / "torch_tpu-0-2") || !fs::exists(shm / "torch_tpu-1-1")) return 3;  // one is of another user
    return 0;
  });
  CHECK(ended(next) == 0);
}

TEST_CASE("joining and leaving at the same time, everybody gets in and the last one cleans up") {
  const Machine machine;
  for (int round = 0; round < 20; ++round) {
    std::vector<pid_t> processes;
    for (int i = 0; i < 6; ++i) {
      processes.push_back(child([&] {
        for (int again = 0; again < 10; ++again) {
          auto shared = Shared::join(machine.path / "shm", kName, 1 << 20);
          if (!shared.ok()) return 1;
          const auto mine = static_cast<uint64_t>(getpid());
          if (!(*shared)->entries().write({mine, 0, 0}, "entry").ok()) return 2;
          const auto back = (*shared)->entries().read({mine, 0, 0});
          if (!back.ok() || !*back) return 3;
        }
        return 0;
      }));
    }
    for (const pid_t p : processes) CHECK(ended(p) == 0);
    CHECK(machine.empty());
  }
}

TEST_CASE("a thread does not wait for another one of its process, nor where a signal came") {
  const Machine machine;
  const Fingerprint key{1, 2, 3};
  const auto join = [&] { return Shared::join(machine.path / "shm", kName, 1 << 20); };
  const auto go = machine.path / "go";
  const pid_t interrupted = child([&] {
    auto shared = join();
    while (!fs::exists(go)) usleep(1000);
    set_interrupt_check([] { return true; });
    return shared.ok() && !(*shared)->lease(key) ? 0 : 1;
  });
  const pid_t holder = child([&] {
    auto shared = join();
    if (!shared.ok()) return 1;
    Shared::Lease lease = (*shared)->lease(key);
    if (!lease || (*shared)->lease(key)) return 2;
    std::ofstream(go) << "go";
    usleep(200'000);  // what the other one needs
    lease = {};
    return (*shared)->lease(key) ? 0 : 3;
  });
  CHECK(ended(interrupted) == 0);
  CHECK(ended(holder) == 0);
}

TEST_CASE("a folder that others may write to is refused") {
  const Machine machine;
  fs::create_directory(machine.path / "shm" / kName);
  fs::permissions(machine.path / "shm" / kName, fs::perms::all);
  CHECK_FALSE(Shared::join(machine.path / "shm", kName, 1).ok());
  CHECK_FALSE(Shared::join(machine.path / "none", kName, 1).ok());
}

}  // namespace
}  // namespace tpu::cache
