// The one device of the process: its PJRT client, how programs are compiled for it, and counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "pjrt/pjrt.h"
#include "runtime/value.h"

namespace tpu::cache {
class Store;
}

namespace tpu::runtime {

// What happened since the process began. compile_stats() of Python.
struct Counters {
  std::atomic<int64_t> compiles{0}, memory_hits{0}, shared_hits{0}, disk_hits{0}, remote_hits{0};
  std::atomic<int64_t> executions{0};        // launches
  std::atomic<int64_t> ops_recorded{0};      // calls of PyTorch operators that reached the engine
  std::atomic<int64_t> materializations{0};  // cuts that a sink forced
  std::atomic<int64_t> unfused{0};           // cuts whose nodes were launched one by one: see novelty.h
  std::atomic<int64_t> cpu_fallbacks{0};
  std::atomic<int64_t> decompositions{0};
  std::atomic<int64_t> plans{0};
  std::atomic<int64_t> compile_ns{0};
};
inline Counters& counters() {
  static constinit Counters counters;
  return counters;
}

class Device {
 public:
  Device();
  ~Device();
  // The device of this process, started on first use. After a fork of a process that had started it, the child gets an
  // error that says to use spawn.
  static Result<Device*> get();
  // Without starting it: whether get() has succeeded, in this process.
  static bool started();
  // Whether this process is a fork of one that had started it: nothing of the device works here.
  static bool forked() { return forked_.load(std::memory_order_relaxed); }
  // Whether there is a plugin to start.
  static bool configured();
  // Plugin and options are read here by get(); call before it.
  struct Settings {
    std::string plugin;  // path; empty: TORCH_TPU_PLUGIN
    pjrt::Options options;
  };
  static void configure(Settings settings);

  const pjrt::Client& client() const { return *client_; }
  bool on_cpu() const { return client_->platform_name() == "cpu"; }
  const std::string& compile_options() const { return compile_options_; }
  // Of a program that is one transpose: the CPU compiler then leaves it to a routine of its own, which goes through
  // memory in blocks and takes a fifth of the time. That must not be asked to work in place, as of a chain of
  // transposes or a donated operand: it does, and wrongly.
  const std::string& transpose_options() const { return transpose_options_; }
  // Programs that were compiled before, here or in another process.
  const cache::Store& store() const { return *store_; }

  // Elements in row-major order.
  Result<ValuePtr> upload(const void* host, const hlo::Type* type, pjrt::HostBuffer mode,
                          std::function<void()> done = {});
  // `value` must be ready. Blocks until its elements are in `host`.
  Status download(const Value& value, void* host);
  // Where on_cpu(): the elements of a ready value, to be read while the value lives. Blocks until they are there.
  Result<const void*> host_pointer(const Value& value);
  // A device copy of these words, from a small cache by content: schedules of scalars repeat.
  Result<ValuePtr> words(std::span<const uint32_t> words);
  // Waits until every ready value has its content; the first error of a launch, if any.
  Status wait();
  // Gives memory that was freed back to the system, where the plugin takes it from the C library.
  static void release_freed_memory();

 private:
  static constinit inline std::atomic<bool> forked_{false};
  Status start();
  std::unique_ptr<pjrt::Client> client_;
  std::string compile_options_, transpose_options_;
  std::unique_ptr<cache::Store> store_;
  struct WordCache;
  WordCache* word_cache_ = nullptr;
};

}  // namespace tpu::runtime
