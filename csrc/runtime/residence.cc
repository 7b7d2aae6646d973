#include "runtime/residence.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "runtime/mappings.h"

namespace tpu::runtime {

std::atomic<uint64_t> Residence::clock_{0};

struct Residence::All {
  using Dropped = std::vector<std::unique_ptr<const pjrt::Executable>>;
  std::mutex mutex;
  std::vector<Residence*> present;
  Figures figures{.budget = int64_t{2} << 30};
  Mappings mappings;

  // Down to somewhat less than the budget, so that not every put() sorts. What is dropped is freed by the caller,
  // without the lock.
  Dropped keep_budget(const Residence* newest) {
    Dropped dropped;
    const bool crowded = mappings.full(figures.programs);
    if (figures.bytes <= figures.budget && !crowded) return dropped;
    const int64_t most = crowded ? figures.programs / 8 * 7 : figures.programs;
    std::vector<std::pair<uint64_t, Residence*>> oldest;  // what is used changes meanwhile
    for (Residence* r : present) oldest.emplace_back(r->used_.load(std::memory_order_relaxed), r);
    std::sort(oldest.begin(), oldest.end());
    for (const auto& [used, r] : oldest) {
      if (figures.bytes <= figures.budget - figures.budget / 8 && figures.programs <= most) break;
      if (r == newest) continue;
      const pjrt::Executable* const executable = r->executable_.exchange(nullptr);
      if (r->pins_.load() != 0) {  // in use: it stays
        r->executable_.store(executable);
        continue;
      }
      dropped.emplace_back(executable);
      forget(*r);
      ++figures.dropped;
    }
    std::erase_if(present,
                  [](const Residence* r) { return r->executable_.load(std::memory_order_relaxed) == nullptr; });
    return dropped;
  }
  void forget(const Residence& r) {
    figures.bytes -= r.bytes_;
    --figures.programs;
  }
};

Residence::All& Residence::all() {
  static auto* const all = new All;
  return *all;
}

Residence::~Residence() {
  const std::unique_ptr<const pjrt::Executable> executable(executable_.load());
  if (executable == nullptr) return;
  const std::lock_guard lock(all().mutex);
  std::erase(all().present, this);
  all().forget(*this);
}

Residence::Use Residence::put(std::unique_ptr<const pjrt::Executable> executable, int64_t bytes) {
  All::Dropped dropped;
  const std::lock_guard lock(all().mutex);
  // Another thread may have been faster, or one that was about to be dropped was in use.
  if (Use there = use()) {
    dropped.push_back(std::move(executable));
    return there;
  }
  bytes_ = bytes;
  used_.store(clock_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  executable_.store(executable.release());
  all().present.push_back(this);
  all().figures.bytes += bytes;
  ++all().figures.programs;
  Use made = use();
  dropped = all().keep_budget(this);
  return made;
}

Residence::Figures Residence::figures() {
  const std::lock_guard lock(all().mutex);
  return all().figures;
}

void Residence::set_most_mappings(int64_t count) {
  const std::lock_guard lock(all().mutex);
  all().mappings = Mappings(count);
}

void Residence::set_budget(int64_t bytes) {
  All::Dropped dropped;
  const std::lock_guard lock(all().mutex);
  all().figures.budget = bytes;
  dropped = all().keep_budget(nullptr);
}

}  // namespace tpu::runtime
