#include "aten/allocator.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include "runtime/device.h"
#include "runtime/memory.h"

namespace tpu::aten {
namespace {

using c10::CachingAllocator::StatType;

// Addresses for data_ptr(): that of the cell, spread out so that offsets find room behind it, under a mark. Unique
// among what is alive, and never readable (not canonical on x86-64, above user space elsewhere). What PyTorch wraps
// anew from an address (a legacy pickle's storage, a DLPack capsule) finds its cell again.
constexpr uint64_t kMark = uint64_t{1} << 62;
constexpr int kCellBits = 4;  // cells are aligned so
constexpr int kSpread = 18;

void* address_of(const Cell* cell) {
  return reinterpret_cast<void*>(kMark | reinterpret_cast<uint64_t>(cell) >> kCellBits << kSpread);
}

// What storage code of PyTorch itself calls (torch.UntypedStorage(8, device="tpu")), and torch.accelerator's memory
// functions. Figures come from the account of the device, which caches nothing: reserved is allocated.
struct Allocator final : c10::DeviceAllocator {
  at::DataPtr allocate(size_t) override { return make_data_ptr(new Cell); }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "device tpu: storages are copied by clone(), not by address");
  }
  bool initialized() override { return runtime::Device::started(); }
  void emptyCache(c10::MempoolId_t) override { runtime::Device::release_freed_memory(); }
  void recordStream(const at::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const runtime::MemoryFigures m = runtime::memory().figures();
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto all = static_cast<size_t>(StatType::AGGREGATE);
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      (*bytes)[all].current = m.live;
      (*bytes)[all].peak = m.peak;
      (*bytes)[all].allocated = m.allocated_bytes;
      (*bytes)[all].freed = m.allocated_bytes - m.live;
    }
    for (auto* count : {&stats.allocation, &stats.active, &stats.segment}) {
      (*count)[all].current = m.buffers;
      (*count)[all].peak = m.most_buffers;
      (*count)[all].allocated = m.allocations;
      (*count)[all].freed = m.frees;
    }
    stats.num_ooms = m.out_of_memory;
    stats.num_device_alloc = m.allocations;
    stats.num_device_free = m.frees;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override { runtime::memory().reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex) override { runtime::memory().reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    const runtime::MemoryFigures m = runtime::memory().figures();
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (m.limit == 0) {  // a CPU device without a limit has the memory of the machine
      return {static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
              static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page};
    }
    return {static_cast<size_t>(std::max<int64_t>(0, m.limit - m.live)), static_cast<size_t>(m.limit)};
  }
};
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, allocator());

}  // namespace

c10::Allocator* allocator() {
  static auto* const allocator = new Allocator;
  return allocator;
}

at::DataPtr make_data_ptr(Cell* cell) {
  return {address_of(cell), cell, &delete_cell, at::Device(at::kPrivateUse1, 0)};
}

void delete_cell(void* cell) { delete static_cast<Cell*>(cell); }

Cell& cell_at(const void* address) {
  const auto bits = reinterpret_cast<uint64_t>(address);
  TORCH_CHECK((bits & kMark) != 0 && (bits & ((uint64_t{1} << kSpread) - 1)) == 0,
              "this tensor's memory was not made by device tpu: exchange data through .cpu()");
  return *reinterpret_cast<Cell*>((bits & ~kMark) >> kSpread << kCellBits);
}

}  // namespace tpu::aten
