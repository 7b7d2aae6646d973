#include "runtime/device.h"

#include <malloc.h>
#include <pthread.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "cache/store.h"
#include "cache/target.h"
#include "runtime/memory.h"
#include "runtime/residence.h"

namespace tpu::runtime {

namespace {
std::mutex start_mutex;
std::atomic<Device*> device{nullptr};
Device::Settings& settings() {
  static auto* const settings = new Device::Settings;
  return *settings;
}
}  // namespace

Device::Device() = default;
Device::~Device() = default;

void Device::configure(Settings s) {
  const std::lock_guard lock(start_mutex);
  settings() = std::move(s);
}

bool Device::started() { return device.load(std::memory_order_acquire) != nullptr && !forked(); }
bool Device::configured() {
  const std::lock_guard lock(start_mutex);
  return !settings().plugin.empty();
}

Result<Device*> Device::get() {
  if (forked()) {
    return Status(
        Code::kUnavailable,
        "Cannot re-initialize the tpu device in a forked subprocess: its threads did not survive the fork. To "
        "use tpu with multiprocessing, use the 'spawn' start method");
  }
  if (Device* d = device.load(std::memory_order_acquire)) return d;
  const std::lock_guard lock(start_mutex);
  if (Device* d = device.load(std::memory_order_acquire)) return d;
  auto made = std::make_unique<Device>();
  TPU_RETURN_IF_ERROR(made->start());
  pthread_atfork(nullptr, nullptr, [] { forked_.store(true, std::memory_order_relaxed); });
  device.store(made.get(), std::memory_order_release);
  return made.release();  // never destroyed: threads of the plugin may outlive static destructors
}

namespace {
// An environment variable that has another value for a while: a plugin reads some once, as it is loaded.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};
std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// Of the CPU compiler: the emitters that go through MLIR take twice as long to compile a kernel, and only transposes
// run faster (Device::transpose_options makes up for it). No compile option asks for it, so it is a flag; the user's
// come later.
constexpr const char* kCpuFlags = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters";

// The CPU plugin allocates what a program needs at each launch. glibc would map large blocks anew each time, and the
// kernel would clear them page by page, which can take longer than the launch: so freed blocks stay with the process,
// until torch.tpu.empty_cache().
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}
}  // namespace

struct Device::WordCache {
  static constexpr size_t kEntries = 256;
  using Entry = std::pair<std::vector<uint32_t>, ValuePtr>;
  std::mutex mutex;
  std::list<Entry> order;  // newest first
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> index;
};

void Device::release_freed_memory() {
  if (started() && device.load()->on_cpu()) malloc_trim(0);
}

Status Device::start() {
  const Settings& s = settings();
  if (s.plugin.empty()) {
    return {Code::kNotFound,
            "no PJRT plugin for device tpu: install one with `pip install --no-deps lammps-jax-pjrt-cpu` (CPU) or `pip "
            "install libtpu` (TPU), or set TORCH_TPU_PLUGIN to the path of a plugin's shared library"};
  }
  const bool cpu = s.options.contains("cpu_device_count");
  const std::string flags = cpu ? kCpuFlags : "";
  {
    // A new client logs its options at level INFO on stderr, unless the user set another level.
    const Setting level("TF_CPP_MIN_LOG_LEVEL", environment("TF_CPP_MIN_LOG_LEVEL", "1"));
    const Setting compiler("XLA_FLAGS", flags + " " + environment("XLA_FLAGS", ""));
    TPU_ASSIGN(const pjrt::Plugin* plugin, pjrt::Plugin::load(s.plugin));
    TPU_ASSIGN(client_, pjrt::Client::create(*plugin, s.options));
  }
  // What the plugin says the device has, unless a smaller limit is set.
  const auto room = client_->memory_limit(0);
  const int64_t limit = memory().figures().limit;
  if (room.ok() && *room > 0 && (limit == 0 || *room < limit)) memory().set_limit(*room);
  word_cache_ = new WordCache;
  if (cpu) keep_freed_memory();
  pjrt::CompileOptions options;
  if (on_cpu()) {
    options.overrides["xla_cpu_enable_fast_min_max"] = false;  // min and max propagate NaN
  }
  // Level 3 unrolls small loops whole, which takes four times as long to compile and runs no faster.
  if (on_cpu()) options.overrides["xla_backend_optimization_level"] = int64_t{2};
  options.overrides["xla_allow_excess_precision"] = false;  // float16 rounds after each op, as in PyTorch
  if (const char* level = std::getenv("TORCH_TPU_OPT_LEVEL")) {
    options.overrides["xla_backend_optimization_level"] = static_cast<int64_t>(std::atoi(level));
  }
  // What lives across a program rather than what may run at once: a step of the small GPT takes 111 MB instead of 130,
  // and no longer. Older plugins do not know the option, and refuse what they do not know.
  constexpr std::pair kKnowsScheduler{0, 115};
  if (cpu && client_->plugin().api_version() >= kKnowsScheduler) {
    options.overrides["xla_cpu_scheduler_type"] = std::string("CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED");
  }
  compile_options_ = transpose_options_ = options.serialize();
  if (cpu) {
    options.overrides["xla_disable_hlo_passes"] = std::string("fusion-wrapper,fusion");
    transpose_options_ = options.serialize();
  }
  if (const char* bytes = std::getenv("TORCH_TPU_PROGRAM_BYTES")) Residence::set_budget(std::atoll(bytes));
  if (const char* count = std::getenv("TORCH_TPU_PROGRAM_MAPPINGS")) Residence::set_most_mappings(std::atoll(count));
  store_ = cache::Store::open();
  if (store_->on()) store_->set_options(cache::options_of(*client_, compile_options_ + transpose_options_ + flags));
  return {};
}

Result<ValuePtr> Device::upload(const void* host, const hlo::Type* type, pjrt::HostBuffer mode,
                                std::function<void()> done) {
  TPU_RETURN_IF_ERROR(memory().reserve("an upload", type->bytes(), 0));
  TPU_ASSIGN(pjrt::Buffer buffer, client_->upload(host, type->dtype, type->dims, 0, mode, std::move(done)));
  ValuePtr value = ValuePtr::make(type);
  value->line = current_line();
  value->set(std::move(buffer));
  return value;
}

Status Device::download(const Value& value, void* host) {
  if (on_cpu()) {
    TPU_ASSIGN(const void* data, host_pointer(value));
    std::memcpy(host, data, static_cast<size_t>(value.type->bytes()));
    return {};
  }
  TPU_ASSIGN(const pjrt::Event done, value.buffer().to_host(host, static_cast<size_t>(value.type->bytes())));
  return done.await();
}

Result<const void*> Device::host_pointer(const Value& value) {
  TPU_ASSIGN(const pjrt::Event ready, value.buffer().ready());
  TPU_RETURN_IF_ERROR(ready.await());
  TPU_ASSIGN(const void* data, value.buffer().host_pointer());
  return data;
}

Result<ValuePtr> Device::words(std::span<const uint32_t> words) {
  WordCache& cache = *word_cache_;
  const uint64_t hash = hash_bytes(words.data(), words.size_bytes());
  {
    const std::lock_guard lock(cache.mutex);
    auto [at, end] = cache.index.equal_range(hash);
    for (; at != end; ++at) {
      const auto& entry = *at->second;
      if (std::equal(words.begin(), words.end(), entry.first.begin(), entry.first.end())) {
        cache.order.splice(cache.order.begin(), cache.order, at->second);
        return entry.second;
      }
    }
  }
  const hlo::Type* type = hlo::intern({DType::kU32, {static_cast<int64_t>(words.size())}});
  TPU_ASSIGN(ValuePtr value, upload(words.data(), type, pjrt::HostBuffer::kCopyNow));
  const std::lock_guard lock(cache.mutex);
  cache.order.emplace_front(std::vector<uint32_t>(words.begin(), words.end()), value);
  cache.index.emplace(hash, cache.order.begin());
  if (cache.order.size() > WordCache::kEntries) {
    const auto last = std::prev(cache.order.end());
    const uint64_t old = hash_bytes(last->first.data(), last->first.size() * sizeof(uint32_t));
    auto [at, end] = cache.index.equal_range(old);
    for (; at != end; ++at) {
      if (at->second == last) {
        cache.index.erase(at);
        break;
      }
    }
    cache.order.pop_back();
  }
  return value;
}

Status Device::wait() {
  Status first;
  for (const ValuePtr& value : memory().snapshot()) {
    auto ready = value->buffer().ready();
    const Status status = ready.ok() ? ready->await() : ready.status();
    if (!status.ok() && first.ok()) first = status;
  }
  return first;
}

}  // namespace tpu::runtime
