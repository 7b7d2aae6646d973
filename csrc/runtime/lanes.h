// The order in which a long recording is split: an optimizer's nodes lane by lane, the rest as recorded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/recording.h"

namespace tpu::runtime {

using Nodes = std::vector<uint32_t>;

inline uint64_t key_of(const Node& node) { return mix(node.call->structure_key, node.call->dimensions_key); }

// Who reads each result, in order.
class Flow {
 public:
  explicit Flow(const Recording& recording) : begin_(recording.num_results + 1) {
    const auto each = [&](auto fn) {
      for (uint32_t i = 0; i < recording.nodes.size(); ++i) {
        for (const Ref ref : recording.operands_of(recording.nodes[i])) {
          if (ref.kind() == Ref::kResult) fn(ref.index(), i);
        }
      }
    };
    each([&](uint32_t result, uint32_t) { ++begin_[result + 1]; });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    readers_.resize(begin_.back());
    std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
    each([&](uint32_t result, uint32_t node) { readers_[next[result]++] = node; });
  }
  std::span<const uint32_t> readers(uint32_t result) const {
    return {readers_.data() + begin_[result], begin_[result + 1] - begin_[result]};
  }

 private:
  std::vector<uint32_t> begin_, readers_;
};

// A part of an order of all nodes; no piece goes over from one to the next.
struct Part {
  Nodes nodes;
  bool lanes;
};

// An optimizer takes each step for all weights, before the next step for any. What it does for one weight touches no
// other: such lanes are put one after the other, those of a kind together. What begins a lane from nothing (moments
// that are zero at first) is put before them, so that the lanes of a first step are those of all. Lanes end with the
// nodes, or with a row: many nodes of one operator side by side, before what reads them all, as the next forward pass.
std::vector<Part> parts_of(const Recording& recording, const Flow& flow);

}  // namespace tpu::runtime
