#include "cache/remote.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

namespace tpu::cache {
namespace {

using Task = Courier::Task;
using namespace std::chrono_literals;

// Two threads that move bytes to and from a map.
struct Movers {
  Courier& courier;
  std::atomic<std::chrono::milliseconds> delay{0ms};
  std::atomic<bool> broken{false};
  std::mutex mutex;
  std::map<std::string, std::string> files;
  std::vector<std::thread> threads;

  explicit Movers(Courier& courier) : courier(courier) {
    for (const bool reads : {true, false}) threads.emplace_back([this, reads] { move(reads); });
  }
  ~Movers() {
    courier.close(10s);
    for (std::thread& t : threads) t.join();
  }
  void move(bool reads) {
    while (const auto task = courier.next(reads)) {
      std::this_thread::sleep_for(delay.load());
      const std::lock_guard lock(mutex);
      std::optional<std::string> found;
      if (broken) {
        courier.done(task->id, Status(Code::kUnavailable, "broken"));
        continue;
      }
      if (task->kind == Task::kPut) files[task->name] = task->bytes;
      if (task->kind == Task::kRemove) files.erase(task->name);
      if (task->kind == Task::kGet && files.contains(task->name)) found = files[task->name];
      courier.done(task->id, std::move(found));
    }
  }
};

TEST_CASE("what is sent is moved in order, and read back") {
  Courier courier;
  Movers movers(courier);
  for (int i = 0; i < 20; ++i) CHECK(courier.send(Task::kPut, std::to_string(i), "bytes " + std::to_string(i)).ok());
  CHECK(courier.send(Task::kRemove, "7", {}).ok());
  for (int tries = 0; tries < 1000; ++tries) {
    std::this_thread::sleep_for(1ms);
    const std::lock_guard lock(movers.mutex);
    if (movers.files.size() == 19 && !movers.files.contains("7")) break;
  }
  std::vector<std::thread> readers;
  std::atomic<int> right{0};
  for (int i = 0; i < 20; ++i) {
    readers.emplace_back([&, i] {
      const auto found = courier.read(std::to_string(i), 10s);
      right += found.ok() && (i == 7 ? !found->has_value() : *found == "bytes " + std::to_string(i));
    });
  }
  for (std::thread& t : readers) t.join();
  CHECK(right == 20);
}

TEST_CASE("a read is waited for so long, the next one not at all while it goes on") {
  Courier courier;
  Movers movers(courier);
  movers.delay = 300ms;
  const auto late = courier.read("x", 20ms);
  REQUIRE_FALSE(late.ok());
  CHECK(late.status().message().find("20 ms") != std::string::npos);
  const auto start = std::chrono::steady_clock::now();
  const auto missed = courier.read("y", 10s);
  CHECK((missed.ok() && !missed->has_value()));
  CHECK(courier.send(Task::kPut, "y", "bytes").ok());
  CHECK(std::chrono::steady_clock::now() - start < 200ms);
  std::this_thread::sleep_for(700ms);
  movers.delay = 0ms;
  const auto found = courier.read("y", 10s);
  CHECK((found.ok() && *found == "bytes"));  // and not the answer to x
}

TEST_CASE("an error is that of the read, or of the next write") {
  Courier courier;
  Movers movers(courier);
  movers.broken = true;
  CHECK(courier.read("x", 10s).status().message() == "broken");
  CHECK(courier.send(Task::kPut, "x", "bytes").ok());
  Status told;
  for (int tries = 0; tries < 1000 && told.ok(); ++tries) {
    std::this_thread::sleep_for(1ms);
    movers.broken = false;
    told = courier.send(Task::kPut, "x", "bytes");
  }
  CHECK(told.message() == "broken");
}

TEST_CASE("closing waits for writes, and ends waiting readers") {
  Courier courier;
  Movers movers(courier);
  movers.delay = 30ms;
  for (int i = 0; i < 5; ++i) CHECK(courier.send(Task::kPut, std::to_string(i), "bytes").ok());
  courier.close(10s);
  CHECK(movers.files.size() == 5);
  CHECK(courier.send(Task::kPut, "late", "bytes").ok());
  CHECK_FALSE(courier.read("late", 10s)->has_value());
}

}  // namespace
}  // namespace tpu::cache
