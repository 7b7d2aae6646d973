#include "runtime/lanes.h"

#include <unordered_map>

namespace tpu::runtime {
namespace {

class Lanes {
 public:
  Lanes(const Recording& recording, const Flow& flow) : recording_(recording), flow_(flow) {
    parent_.resize(recording.nodes.size());
    std::iota(parent_.begin(), parent_.end(), 0u);
    find_rows();
  }

  std::vector<Part> parts() {
    std::vector<Part> parts;  // from the end
    for (auto end = static_cast<uint32_t>(recording_.nodes.size()); end > 0;) {
      const uint32_t begin = widest(end);
      add_by_lane(begin, end, parts);
      end = begin;
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }

 private:
  static constexpr size_t kMany = 8;

  uint32_t root(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }

  // Lanes below `end` that read what the node makes.
  Nodes lanes_of(uint32_t node, uint32_t end) {
    Nodes found;
    const Node& n = recording_.nodes[node];
    for (size_t r = 0; r < n.call->results.size(); ++r) {
      for (const uint32_t reader : flow_.readers(n.first_result + static_cast<uint32_t>(r))) {
        if (reader < end) found.push_back(root(reader));
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  uint32_t first_reader(uint32_t node) const {
    const Node& n = recording_.nodes[node];
    auto first = static_cast<uint32_t>(recording_.nodes.size());
    for (size_t r = 0; r < n.call->results.size(); ++r) {
      const auto readers = flow_.readers(n.first_result + static_cast<uint32_t>(r));
      if (!readers.empty()) first = std::min(first, readers.front());
    }
    return first;
  }

  void find_rows() {
    const auto& nodes = recording_.nodes;
    ends_row_.resize(nodes.size() + 1);
    auto end = static_cast<uint32_t>(nodes.size());  // from i to here none reads another
    for (auto i = end; i-- > 0;) {
      const bool goes_on = i + 1 < nodes.size() && nodes[i].call->name == nodes[i + 1].call->name;
      end = goes_on ? std::min(end, first_reader(i)) : i + 1;
      if (end - i >= kMany) ends_row_[end] = true;
    }
  }

  // Where the nodes that end before `end` begin to hang together: a node that most of many lanes read, or the end of
  // other lanes.
  uint32_t widest(uint32_t end) {
    size_t lanes = 0;
    for (uint32_t i = end; i-- > 0;) {
      if (i + 1 < end && lanes < kMany && ends_row_[i + 1]) return i + 1;
      const Nodes joined = lanes_of(i, end);
      if (joined.size() >= kMany && joined.size() * 2 > lanes) return i + 1;
      if (recording_.nodes[i].call->has_effect && i + 1 < end) return i + 1;
      for (const uint32_t lane : joined) parent_[lane] = i;
      lanes += 1 - joined.size();
    }
    return 0;
  }

  void add_by_lane(uint32_t begin, uint32_t end, std::vector<Part>& parts) {
    std::unordered_map<uint32_t, size_t> number;
    std::vector<Nodes> lanes;
    Nodes from_nothing;
    for (uint32_t i = begin; i < end; ++i) {
      if (recording_.nodes[i].call->operands.empty()) {
        from_nothing.push_back(i);
        continue;
      }
      const auto [at, is_new] = number.try_emplace(root(i), lanes.size());
      if (is_new) lanes.emplace_back();
      lanes[at->second].push_back(i);
    }
    if (lanes.size() < kMany) {
      Nodes nodes(end - begin);
      std::iota(nodes.begin(), nodes.end(), begin);
      if (!parts.empty() && !parts.back().lanes) {  // goes on
        const Nodes& rest = parts.back().nodes;
        nodes.insert(nodes.end(), rest.begin(), rest.end());
        parts.pop_back();
      }
      parts.push_back({std::move(nodes), false});
      return;
    }
    std::unordered_map<uint64_t, size_t> kind_number;
    std::vector<std::vector<const Nodes*>> kinds;
    for (const Nodes& lane : lanes) {
      uint64_t kind = 0;
      for (const uint32_t i : lane) kind = mix(kind, key_of(recording_.nodes[i]));
      const auto [at, is_new] = kind_number.try_emplace(kind, kinds.size());
      if (is_new) kinds.emplace_back();
      kinds[at->second].push_back(&lane);
    }
    Nodes nodes;
    for (const auto& kind : kinds) {
      for (const Nodes* lane : kind) nodes.insert(nodes.end(), lane->begin(), lane->end());
    }
    parts.push_back({std::move(nodes), true});
    if (!from_nothing.empty()) parts.push_back({std::move(from_nothing), true});
  }

  const Recording& recording_;
  const Flow& flow_;
  Nodes parent_;
  std::vector<bool> ends_row_;  // of as many nodes
};

}  // namespace

std::vector<Part> parts_of(const Recording& recording, const Flow& flow) { return Lanes(recording, flow).parts(); }

}  // namespace tpu::runtime
