// Tells which regions of DeferAndFuse are worth a program of their own. One that comes again is, and one whose calls
// are new themselves. But a stream that puts the same calls together anew each time would compile for longer than it
// runs: it is launched call by call, as in Strict.
//
// A function of the stream of regions alone, never of time or of what is compiled.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"
#include "runtime/line.h"
#include "runtime/recording.h"

namespace tpu::runtime {

class Novelty {
 public:
  static constexpr uint8_t kNewInARow = 2;    // new regions that a line may bring before it is taken not to repeat
  static constexpr uint8_t kKnownForNew = 8;  // known ones that pay for a new one
  static constexpr uint8_t kComesBack = 4;    // times after which a region is taken to repeat all the same
  static constexpr size_t kNewCalls = 5;      // one new call among so many costs about what a program of all does

  // Asked for each region, in order, when its elements are read at a line of Python.
  bool is_worth_a_program(uint64_t structure, std::span<const Node> nodes, Line at) {
    if (times_.size() >= kMost) times_.clear();
    uint8_t& times = times_[structure];
    if (times == 0) return is_new_worth_it(times, nodes, at);
    uint8_t& debt = debt_at(at);
    if (debt > 0) --debt;
    if (times < kComesBack) ++times;
    return times == kComesBack;
  }

 private:
  static constexpr size_t kMost = 1 << 15;

  bool is_new_worth_it(uint8_t& times, std::span<const Node> nodes, Line at) {
    if (calls_.size() >= kMost) calls_.clear();
    size_t new_calls = 0;
    for (const Node& node : nodes) new_calls += calls_.insert(node.call).second;
    const bool made_of_new = new_calls * kNewCalls > nodes.size();
    uint8_t& debt = debt_at(at);
    const bool allowed = made_of_new || debt < kNewInARow * kKnownForNew;
    if (!made_of_new && allowed) debt += kKnownForNew;
    times = allowed ? kComesBack : 1;
    return allowed;
  }

  // In known regions to come.
  uint8_t& debt_at(Line at) {
    if (debts_.size() >= kMost) debts_.clear();
    return debts_[mix(reinterpret_cast<uintptr_t>(at.code), static_cast<uint64_t>(at.instruction))];
  }

  // That a structure came, up to kComesBack: from there on it is a program.
  std::unordered_map<uint64_t, uint8_t> times_;
  std::unordered_map<uint64_t, uint8_t> debts_;  // of a line
  std::unordered_set<const hlo::Call*> calls_;   // that came
};

}  // namespace tpu::runtime
