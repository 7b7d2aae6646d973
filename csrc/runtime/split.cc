#include "runtime/split.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "runtime/lanes.h"
#include "runtime/repeats.h"

namespace tpu::runtime {
namespace {

// Finds where an order of nodes goes on as before.
class Runs {
 public:
  Runs(const Recording& recording, const Flow& flow, const Part& part)
      : recording_(recording), flow_(flow), order_(part.nodes), lanes_(part.lanes) {
    for (const uint32_t i : order_) {
      const hlo::Call& call = *recording.nodes[i].call;
      keys_.push_back(key_of(recording.nodes[i]));
      int64_t bytes = kNodeBytes;
      for (const hlo::Type* type : call.operands) bytes += type->bytes();
      for (const hlo::Type* type : call.results) bytes += type->bytes();
      weight_.push_back(weight_.back() + bytes);
    }
    for (size_t i = 0; i + kWindow <= keys_.size(); ++i) {
      uint64_t window = 0;
      for (size_t k = 0; k < kWindow; ++k) window = mix(window, keys_[i + k]);
      windows_.push_back(window);
      seen_[window].push_back(i);
    }
  }

  // Ends of pieces, ascending; the last is that of the order.
  std::vector<size_t> ends() {
    std::vector<size_t> ends;
    for (size_t i = 0; i < windows_.size();) {
      const Run run = longest(i);
      const size_t piece = piece_of(i, run);
      if (piece == 0) {
        ++i;
        continue;
      }
      const std::vector<size_t> places = cuts(i, run, piece);
      const size_t last = i + run.length;
      for (size_t begin = i; begin <= last; begin += piece) {
        for (const size_t place : places) {
          const size_t end = begin + place;
          if (end <= last && end > (ends.empty() ? 0 : ends.back())) ends.push_back(end);
        }
      }
      i = std::max(i + 1, ends.empty() ? 0 : ends.back());
    }
    if (ends.empty() || ends.back() != order_.size()) ends.push_back(order_.size());
    return ends;
  }

 private:
  static constexpr size_t kWindow = 8;
  static constexpr size_t kCandidates = 32;
  // What a node costs beside the bytes that it reads and writes. A piece is worth a launch where it moves kLaneBytes
  // or, where it hands on to the next what the compiler could have fused, kPieceBytes; of short periods, kManyShort
  // nodes.
  // Where a layer is as narrow inside as at its ends (between attention and what follows), it is cut there too, into
  // parts of kPartBytes at least: what the first of them read is freed before the second runs.
  static constexpr int64_t kNodeBytes = 4096, kLaneBytes = 16 * kNodeBytes, kPieceBytes = 64 * kNodeBytes,
                           kPartBytes = int64_t{4} << 20;

  struct Run {
    size_t period = 0, length = 0;
  };

  // From `begin` on: what lasts longest, and of several that last as long the shortest period.
  Run longest(size_t begin) const {
    Run best;
    const std::vector<size_t>& same = seen_.at(windows_[begin]);
    auto at = std::upper_bound(same.begin(), same.end(), begin);
    for (size_t tries = 0; at != same.end() && tries < kCandidates; ++at, ++tries) {
      const size_t period = *at - begin;
      // Seen before, from the node before, and found too short.
      if (begin > 0 && keys_[begin - 1] == keys_[begin - 1 + period]) continue;
      size_t end = begin;
      while (end + period < keys_.size() && keys_[end] == keys_[end + period]) ++end;
      const size_t length = end + period - begin;
      if (length >= 2 * period && length > best.length) best = {period, length};
    }
    return best;
  }

  // Nodes of a piece: whole periods, as many as are worth a launch; 0 where the run has no two of them.
  size_t piece_of(size_t begin, const Run& run) const {
    if (run.length == 0) return 0;
    const int64_t bytes = weight_[begin + run.period] - weight_[begin];
    const auto up = [](int64_t n, int64_t by) { return static_cast<size_t>((n + by - 1) / by); };
    size_t least = up(lanes_ ? kLaneBytes : kPieceBytes, bytes);
    if (!lanes_ && run.period < Repeats::kShort) least = up(Repeats::kManyShort, static_cast<int64_t>(run.period));
    const size_t periods = run.length / run.period;
    if (2 * least > periods) return 0;
    size_t best = least;  // of which the fewest are left over
    for (size_t n = least; n < 2 * least && 2 * n <= periods; ++n) {
      if (periods % n < periods % best) best = n;
    }
    return best * run.period;
  }

  // After how many nodes of a piece to cut, ascending: where the least goes over from one side to the other, and a
  // launch is worth its while. What is read only later, as by the backward pass, goes over at any cut.
  std::vector<size_t> cuts(size_t begin, const Run& run, size_t piece) const {
    // Cuts are looked at in the middle, so that readers on both sides are seen.
    const size_t window = std::min(3 * piece, run.length), first = (window - piece) / 2;
    std::vector<size_t> at(recording_.nodes.size(), window);
    for (size_t k = 0; k < window; ++k) at[order_[begin + k]] = k;
    std::vector<int64_t> crossing(window + 1, 0);
    for (size_t k = 0; k < window; ++k) {
      const Node& node = recording_.nodes[order_[begin + k]];
      for (size_t r = 0; r < node.call->results.size(); ++r) {
        size_t last = k;
        for (const uint32_t reader : flow_.readers(node.first_result + static_cast<uint32_t>(r))) {
          if (at[reader] < window) last = std::max(last, at[reader]);
        }
        if (last == k) continue;
        crossing[k + 1] += node.call->results[r]->bytes();
        crossing[last + 1] -= node.call->results[r]->bytes();
      }
    }
    std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
    const auto narrowest = std::min_element(crossing.begin() + static_cast<ptrdiff_t>(first),
                                            crossing.begin() + static_cast<ptrdiff_t>(first + piece));
    const auto best = static_cast<size_t>(narrowest - crossing.begin());
    std::vector<size_t> found{best % piece};
    const auto bytes = [&](size_t from, size_t to) { return weight_[begin + to] - weight_[begin + from]; };
    for (size_t k = best + 1, before = best; !lanes_ && k < first + piece; ++k) {
      if (crossing[k] > *narrowest || bytes(before, k) < kPartBytes || bytes(k, best + piece) < kPartBytes) continue;
      found.push_back(k % piece);
      before = k;
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  const Recording& recording_;
  const Flow& flow_;
  const Nodes& order_;
  const bool lanes_;
  std::vector<uint64_t> keys_, windows_;
  std::vector<int64_t> weight_{0};  // of all before
  std::unordered_map<uint64_t, std::vector<size_t>> seen_;
};

}  // namespace

std::vector<Nodes> split(const Recording& recording) {
  const Flow flow(recording);
  std::vector<Nodes> pieces;
  bool repeats = false;
  for (const Part& part : parts_of(recording, flow)) {
    const std::vector<size_t> ends = Runs(recording, flow, part).ends();
    repeats = repeats || ends.size() > 1;
    auto begin = part.nodes.begin();
    for (const size_t end : ends) {
      pieces.emplace_back(begin, part.nodes.begin() + static_cast<ptrdiff_t>(end));
      begin = part.nodes.begin() + static_cast<ptrdiff_t>(end);
    }
  }
  if (repeats) return pieces;
  Nodes all(recording.nodes.size());
  std::iota(all.begin(), all.end(), 0u);
  return {std::move(all)};
}

}  // namespace tpu::runtime
