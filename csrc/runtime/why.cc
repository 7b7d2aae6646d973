#include "runtime/why.h"

#include <algorithm>

namespace tpu::runtime {
namespace {

constexpr size_t kMostChanges = 8;

class Comparison {
 public:
  Comparison(const Request& before, const Request& now) : a_(before.recording), b_(now.recording) {
    cause_.resize(b_.num_results);
    for (size_t i = 0; i < b_.nodes.size(); ++i) {
      const Node& node = b_.nodes[i];
      if (!is_view(*node.call)) continue;
      const bool same = i < a_.nodes.size() && a_.nodes[i].call->operands == node.call->operands;
      Cause cause = same ? kView : kNone;
      if (node.call->operands.empty()) cause = kOutside;
      if (!node.call->operands.empty()) cause = std::max(cause, cause_of(b_.operands[node.first_operand]));
      std::fill_n(cause_.begin() + node.first_result, node.call->results.size(), cause);
    }
  }

  // Both have the same operators, or `changes` says where they part.
  void run() {
    const size_t n = std::min(a_.nodes.size(), b_.nodes.size());
    for (uint32_t i = 0; i < n; ++i) {
      const hlo::Call *before = a_.nodes[i].call, *now = b_.nodes[i].call;
      if (before != now && before->name != now->name) return part(i);
    }
    if (a_.nodes.size() != b_.nodes.size()) return part(static_cast<uint32_t>(n));
    for (uint32_t i = 0; i < n; ++i) {
      if (a_.nodes[i].call != b_.nodes[i].call) {
        if (!is_view(*b_.nodes[i].call)) look_at(i);
      } else if (changes_.empty() && !feeds_alike(i)) {
        return part(i);
      }
    }
    // Only views differ, or something that follows from nothing we know: the first place where it shows.
    for (uint32_t i = 0; i < n && changes_.empty(); ++i) {
      if (a_.nodes[i].call != b_.nodes[i].call) look_at_results(i);
      if (a_.nodes[i].call != b_.nodes[i].call && changes_.empty()) part(i);
    }
    leave_out_what_follows();
  }

  std::vector<Change> take() { return std::move(changes_); }

 private:
  void part(uint32_t node) { changes_.assign(1, {Why::kStructure, Change::kNode, node}); }
  void add(const Change& change) {
    if (changes_.size() < kMostChanges) changes_.push_back(change);
  }
  Ref operand(uint32_t node, size_t k) const { return b_.operands[b_.nodes[node].first_operand + k]; }
  bool feeds_alike(uint32_t node) const {
    const auto from = [&](const Recording& r) { return r.operands.begin() + r.nodes[node].first_operand; };
    return std::equal(from(a_), from(a_) + static_cast<ptrdiff_t>(a_.nodes[node].call->operands.size()), from(b_));
  }
  // Whether an operand that differs may be where a difference begins: where a view takes another part of what the
  // program made, or outside the program.
  enum Cause : uint8_t { kNone, kView, kOutside };
  Cause cause_of(Ref ref) const {
    if (ref.kind() == Ref::kInput) return kOutside;
    return ref.kind() == Ref::kResult ? cause_[ref.index()] : kNone;
  }
  void add_types(const hlo::Type* before, const hlo::Type* now, Change at) {
    if (before == now) return;
    at.why = before->dtype != now->dtype ? Why::kDtype : Why::kDimensions;
    if (before->dtype != now->dtype || before->rank() != now->rank()) return add(at);
    for (size_t d = 0; d < now->dims.size(); ++d) {
      at.dim = static_cast<int32_t>(d);
      if (before->dims[d] != now->dims[d]) add(at);
    }
  }

  void look_at(uint32_t node) {
    const hlo::Call &before = *a_.nodes[node].call, &now = *b_.nodes[node].call;
    bool followed = false;  // an operand that the program made is another
    const size_t operands = std::min(before.operands.size(), now.operands.size());
    for (size_t k = 0; k < operands; ++k) {
      const Ref ref = operand(node, k);
      if (before.operands[k] == now.operands[k] || ref.kind() == Ref::kScalar) continue;
      followed = true;
      if (cause_of(ref) == kNone || std::find(seen_.begin(), seen_.end(), ref) != seen_.end()) continue;
      seen_.push_back(ref);
      add_types(before.operands[k], now.operands[k],
                {Why::kDimensions, Change::kOperand, node, static_cast<int32_t>(k)});
    }
    const bool sizes = before.results != now.results;
    for (size_t j = 0; j < std::min(before.attributes.size(), now.attributes.size()); ++j) {
      if (before.attributes[j] == now.attributes[j]) continue;
      add({sizes ? Why::kDimensions : Why::kAttribute, Change::kAttribute, node, static_cast<int32_t>(j)});
      followed = true;
    }
    if (before.precision != now.precision) add({Why::kPrecision, Change::kNode, node});
    if (!followed && changes_.empty()) look_at_results(node);
  }

  void look_at_results(uint32_t node) {
    const hlo::Call &before = *a_.nodes[node].call, &now = *b_.nodes[node].call;
    for (size_t r = 0; r < std::min(before.results.size(), now.results.size()); ++r) {
      add_types(before.results[r], now.results[r], {Why::kDimensions, Change::kResult, node, static_cast<int32_t>(r)});
    }
  }

  // Sizes that the program's own code computes from those of its inputs.
  void leave_out_what_follows() {
    const auto begins = [&](const Change& c) {
      return c.place == Change::kOperand ? cause_of(operand(c.node, static_cast<size_t>(c.index))) : kNone;
    };
    Cause most = kNone;
    for (const Change& c : changes_) most = std::max(most, begins(c));
    std::erase_if(changes_, [&](const Change& c) {
      return begins(c) < most && (c.place == Change::kOperand || c.why == Why::kDimensions);
    });
  }

  const Recording &a_, &b_;
  std::vector<Cause> cause_;  // of results of b_
  std::vector<Ref> seen_;     // causes that were looked at
  std::vector<Change> changes_;
};

}  // namespace

bool is_view(const hlo::Call& call) { return call.name.starts_with("view.") || call.name.starts_with("storage."); }

Difference compare(const Request& before, const Request& now) {
  if (before.recording == now.recording) {
    if (before.live != now.live) return {Why::kResults, {{Why::kResults}}};
    if (before.given != now.given) return {Why::kDonation, {{Why::kDonation}}};
    return {Why::kDropped, {{Why::kDropped}}};
  }
  Comparison comparison(before, now);
  comparison.run();
  Difference found{Why::kStructure, comparison.take()};
  for (const Why why : {Why::kDtype, Why::kDimensions, Why::kAttribute, Why::kPrecision}) {
    if (std::any_of(found.changes.begin(), found.changes.end(), [&](const Change& c) { return c.why == why; })) {
      found.why = why;
      break;
    }
  }
  return found;
}

std::string_view name_of(Why why) {
  switch (why) {
    case Why::kFirst: return "first";
    case Why::kDropped: return "dropped";
    case Why::kDimensions: return "dimensions";
    case Why::kDtype: return "dtype";
    case Why::kAttribute: return "attribute";
    case Why::kPrecision: return "precision";
    case Why::kStructure: return "structure";
    case Why::kResults: return "results";
    case Why::kDonation: return "donation";
  }
  return "";
}

}  // namespace tpu::runtime
