#include "runtime/repeats.h"

#include <algorithm>
#include <utility>

namespace tpu::runtime {
namespace {

constexpr uint64_t kBase = 0x9E3779B97F4A7C15ull;

constexpr uint64_t power(uint64_t base, size_t n) {
  uint64_t p = 1;
  for (size_t i = 0; i < n; ++i) p *= base;
  return p;
}

}  // namespace

void Repeats::begin() {
  keys_.resize(2 * kLongest);
  seen_.resize(2 * kLongest);
}

void Repeats::drop(size_t candidate) {
  if (candidates_[candidate].period == settled_) {
    piece_ = 0;
    suspects_ = true;  // a longer one may be due
  }
  candidates_[candidate] = candidates_[--num_candidates_];
}

Repeats::Candidate* Repeats::suspect() {
  Candidate* shortest = nullptr;
  for (size_t i = 0; i < num_candidates_; ++i) {
    Candidate& c = candidates_[i];
    if (is_due(c) && (shortest == nullptr || c.period < shortest->period)) shortest = &c;
  }
  suspects_ = shortest != nullptr;
  return shortest;
}

void Repeats::note_window(uint64_t key) {
  constexpr uint64_t kLeaves = power(kBase, kWindow);
  // Slots that were never written hold 0, which is also what they added to the polynomial.
  window_ = window_ * kBase + key - (count_ >= kWindow ? keys_[(count_ - kWindow) & kMask] * kLeaves : 0);
  if (count_ + 1 < start_ + kWindow) return;
  Seen& slot = seen_[(window_ ^ window_ >> 32) & kMask];
  const Seen before = std::exchange(slot, {window_, count_});
  if (before.window != window_ || before.at + 1 < start_ + kWindow || count_ - before.at > kLongest) return;
  Candidate found{count_ - before.at, kWindow, 0};
  found.next_look = std::max(kMinLoop, found.piece());
  const auto end = candidates_.begin() + num_candidates_;
  if (std::any_of(candidates_.begin(), end, [&](const Candidate& c) { return c.period == found.period; })) return;
  if (num_candidates_ < kCandidates) {
    candidates_[num_candidates_++] = found;
    return;
  }
  // The one that has lasted least gives way, but not the one in use.
  Candidate* least = nullptr;
  for (Candidate& c : candidates_) {
    if (piece_ != 0 && c.period == settled_) continue;
    if (least == nullptr || c.run < least->run) least = &c;
  }
  *least = found;
}

}  // namespace tpu::runtime
