// Finds the period of a stream of nodes: a training step, a layer of many. A region is then cut where the period ends,
// so that each period is one program, compiled once, and the device works while the host records the next.
//
// Everything here is a function of the stream of keys alone, never of time, load or what is compiled: processes that
// run the same program cut at the same places.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpu::runtime {

class Repeats {
 public:
  static constexpr size_t kWindow = 8;         // nodes that must be seen again before a period is suspected
  static constexpr size_t kLongest = 1 << 14;  // nodes of a period that can be found
  static constexpr size_t kMinLoop = 128;      // nodes that must have repeated, where a period goes on from the last
  static constexpr size_t kMinBlocks = 1024;   // ... and where it brings its own inputs, as a layer its weights
  static constexpr size_t kShort = 16;         // a period of fewer nodes is not worth a launch,
  static constexpr size_t kManyShort = 256;    // so that as many are taken together as make this many nodes

  // The next node of the stream.
  void add(uint64_t key) {
    if (keys_.empty()) begin();
    for (size_t i = 0; i < num_candidates_;) {
      Candidate& c = candidates_[i];
      if (keys_[(count_ - c.period) & kMask] == key) {
        ++c.run;
        suspects_ = suspects_ || is_due(c);
        ++i;
      } else {
        drop(i);
      }
    }
    keys_[count_ & kMask] = key;
    note_window(key);
    ++count_;
  }
  // Something from outside cut the stream: what came before is no longer of interest.
  void restart() {
    start_ = count_;
    num_candidates_ = 0;
    piece_ = 0;
    suspects_ = false;
  }

  // A period of which nobody has decided yet. `run`: how many nodes up to now equal those one period before them.
  struct Candidate {
    size_t period, run, next_look;
    // Nodes of one program.
    size_t piece() const { return period >= kShort ? period : (kManyShort + period - 1) / period * period; }
    // Not now: look again when so many more have repeated.
    void look_again_after(size_t nodes) { next_look = run + nodes; }
  };
  bool suspects() const { return suspects_; }
  // The one with the shortest period of those to look at, shorter than one already settled on; null when there is none.
  // Its next_look must be moved, or it be settled on.
  Candidate* suspect();

  // Settles on a period: a boundary `behind` nodes before the end of the stream, and every piece() on, while it lasts.
  void settle(const Candidate& candidate, size_t behind) {
    settled_ = candidate.period;
    piece_ = candidate.piece();
    next_cut_ = count_ - behind;
  }
  bool at_boundary() const { return piece_ != 0 && count_ >= next_cut_; }
  // Nodes that were added since the boundary.
  size_t behind() const { return count_ - next_cut_; }
  void passed() { next_cut_ += piece_; }

 private:
  static constexpr size_t kMask = 2 * kLongest - 1;
  static constexpr size_t kCandidates = 4;  // a layer, a step, a step of an outer loop, and one that comes to nothing
  struct Seen {
    uint64_t window = 0;
    size_t at = 0;
  };
  bool is_due(const Candidate& c) const { return c.run >= c.next_look && (piece_ == 0 || c.period < settled_); }
  void begin();
  void drop(size_t candidate);
  void note_window(uint64_t key);

  std::vector<uint64_t> keys_;  // ring of the last 2 * kLongest; empty until the first
  std::vector<Seen> seen_;      // where a window was last seen; the newer of two with one slot stays
  size_t count_ = 0, start_ = 0;
  uint64_t window_ = 0;  // polynomial of the last kWindow keys
  std::array<Candidate, kCandidates> candidates_;
  size_t num_candidates_ = 0;
  bool suspects_ = false;
  size_t settled_ = 0, piece_ = 0, next_cut_ = 0;
};

}  // namespace tpu::runtime
