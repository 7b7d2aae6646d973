// What PyTorch asks of a device: guard, streams and events, hooks.

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>

#include "aten/cell.h"
#include "aten/errors.h"
#include "aten/generator.h"
#include "aten/synchronize.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/region.h"

namespace tpu::aten {

void synchronize() {
  refuse_fork();
  if (!runtime::Device::started()) return;
  check(runtime::Region::cut_all());
  check(check(runtime::Device::get())->wait());
}

bool idle() {
  bool all = true;
  runtime::memory().each([&](const runtime::Value& v) {
    auto ready = v.buffer().ready();
    all = all && (!ready.ok() || ready->ready());
  });
  return all;
}

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

// The device runs one stream; others are names for it. An event is a point in the order of what is recorded, and cuts
// nothing: whoever asks whether it has passed has all launched that was recorded. One that takes the time waits for it.
struct Event {
  bool timed = false;
  std::chrono::steady_clock::time_point when{};
};

}  // namespace

double elapsed_time(uint64_t from, uint64_t to) {
  TORCH_CHECK(from != 0 && to != 0, "Both events must be recorded before calculating elapsed time.");
  const auto& a = *reinterpret_cast<const Event*>(from);
  const auto& b = *reinterpret_cast<const Event*>(to);
  TORCH_CHECK_VALUE(a.timed && b.timed, "Both events must be created with argument 'enable_timing=True'.");
  return std::chrono::duration<double, std::milli>(b.when - a.when).count();
}

namespace {

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device d) const override {
    setDevice(d);
    return getDevice();
  }
  c10::Device getDevice() const override { return {kType, 0}; }
  void setDevice(c10::Device d) const override {
    TORCH_CHECK(d.type() == kType, "expected a tpu device, got ", d);
    TORCH_CHECK(d.index() <= 0, "device tpu:", static_cast<int>(d.index()),
                " does not exist: there is one device a process, tpu:0");
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return current_stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, {kType, 0}); }
  c10::Stream getNewStream(c10::Device, int) const override {
    static std::atomic<c10::StreamId> next{1};
    return c10::Stream(c10::Stream::UNSAFE, {kType, 0}, next.fetch_add(1));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return getNewStream(d, 0); }
  c10::Stream exchangeStream(c10::Stream s) const override { return std::exchange(current_stream(), s); }
  c10::DeviceIndex deviceCount() const noexcept override { return runtime::Device::configured() ? 1 : 0; }

  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    refuse_fork();
    if (*event == nullptr) *event = new Event{flag == c10::EventFlag::BACKEND_DEFAULT, {}};
    auto& e = *static_cast<Event*>(*event);
    if (e.timed) {
      synchronize();
      e.when = std::chrono::steady_clock::now();
    }
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    if (event != nullptr) check(runtime::Region::cut_all());
    return event == nullptr || idle();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void synchronizeEvent(void*) const override { synchronize(); }
  bool queryStream(const c10::Stream&) const override { return idle(); }
  void synchronizeStream(const c10::Stream&) const override { synchronize(); }
  void synchronizeDevice(const c10::DeviceIndex) const override { synchronize(); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return elapsed_time(reinterpret_cast<uint64_t>(from), reinterpret_cast<uint64_t>(to));
  }

 private:
  static c10::Stream& current_stream() {
    static thread_local c10::Stream stream(c10::Stream::DEFAULT, {kType, 0});
    return stream;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return runtime::Device::configured(); }
  void init() const override { (void)check(runtime::Device::get()); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return runtime::Device::started(); }
  c10::DeviceIndex deviceCount() const override { return GuardImpl().deviceCount(); }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex d) const override { GuardImpl().setDevice({kType, d}); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override {
    setCurrentDevice(d);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override {
    if (d >= 0) setCurrentDevice(d);
    return 0;
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return make_generator(); }
  c10::Device getDeviceFromPtr(void*) const override { return {kType, 0}; }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::kCPU); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

// There is one order of launches, and a buffer lives until those that use it have ended.
void record_stream(at::Tensor&, c10::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("record_stream", TORCH_FN(record_stream)); }

[[maybe_unused]] const bool hooks_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace tpu::aten
