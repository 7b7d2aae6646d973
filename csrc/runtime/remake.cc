#include "runtime/remake.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/why.h"

namespace tpu::runtime {
namespace {

using Pieces = std::vector<uint32_t>;  // numbers of pieces, ascending

// A result is made again where nothing read it during the piece before, by so many pieces at most.
constexpr uint32_t kGap = 2;
constexpr size_t kMostPieces = 2, kMostInARow = 3;
constexpr int64_t kLeastBytes = int64_t{256} << 10;

bool is_quick(const hlo::Call& call) { return (call.quick || is_view(call)) && !call.has_effect; }

class Search {
 public:
  Search(const Recording& recording, std::span<const Pieces> pieces, std::span<const uint32_t> live,
         std::span<const uint32_t> given)
      : recording_(recording), live_(live), given_(given), again_(pieces.size()) {
    for (uint32_t p = 0; p < pieces.size(); ++p) {
      for (const uint32_t i : pieces[p]) {
        for (const Ref ref : recording.operands_of(recording.nodes[i])) {
          Pieces& readers = readers_[ref.bits()];
          if (readers.empty() || readers.back() != p) readers.push_back(p);
        }
      }
    }
  }

  void look_at(uint32_t piece, const Node& node) {
    if (!is_quick(*node.call)) return;
    for (uint32_t r = 0; r < node.call->results.size(); ++r) {
      const Ref result(Ref::kResult, node.first_result + r);
      Pieces& readers = readers_[result.bits()];
      if (readers.empty() || held(result) || node.call->results[r]->bytes() < kLeastBytes) continue;
      size_t kept = 0;  // of its readers, those until the first gap
      for (uint32_t before = piece; kept < readers.size() && readers[kept] - before < kGap; ++kept)
        before = readers[kept];
      if (kept == readers.size() || readers.size() - kept > kMostPieces) continue;
      Results made{result.index()};
      if (!can_make(node, readers.back(), kMostInARow, made)) continue;
      for (size_t k = kept; k < readers.size(); ++k) {
        again_[readers[k]].insert(again_[readers[k]].end(), made.begin(), made.end());
      }
      readers.resize(kept);
    }
  }

  std::vector<Pieces> found() && {
    for (Pieces& results : again_) std::sort(results.begin(), results.end());
    return std::move(again_);
  }

 private:
  using Results = std::vector<uint32_t>;

  bool held(Ref ref) const { return is_held(ref, live_, given_); }
  // Whether a value is there while piece `p` runs, whatever that reads.
  bool outlives(Ref ref, uint32_t p) {
    if (ref.kind() == Ref::kScalar || held(ref)) return true;
    const Pieces& readers = readers_[ref.bits()];
    return !readers.empty() && readers.back() >= p;
  }
  // Adds what has to be made before, of at most so many nodes one behind the other.
  bool can_make(const Node& node, uint32_t piece, size_t in_a_row, Results& made) {
    return is_quick(*node.call) && in_a_row > 0 && std::ranges::all_of(recording_.operands_of(node), [&](Ref ref) {
             if (outlives(ref, piece)) return true;
             if (ref.kind() != Ref::kResult) return false;
             made.push_back(ref.index());
             return can_make(recording_.nodes[maker(recording_, ref.index())], piece, in_a_row - 1, made);
           });
  }

  const Recording& recording_;
  std::span<const uint32_t> live_, given_;
  std::unordered_map<uint32_t, Pieces> readers_;  // by the bits of a Ref
  std::vector<Pieces> again_;
};

}  // namespace

bool is_held(Ref ref, std::span<const uint32_t> live, std::span<const uint32_t> given) {
  const auto contains = [&](std::span<const uint32_t> numbers) {
    return std::binary_search(numbers.begin(), numbers.end(), ref.index());
  };
  return ref.kind() == Ref::kInput ? !contains(given) : contains(live);
}

const hlo::Call* fence(const hlo::Type* type) {
  hlo::Call call;
  call.name = "view.fence";
  call.emit = [](hlo::Builder& b, const hlo::Call&, std::span<const hlo::Value> operands) {
    return b.optimization_barrier({operands[0]});
  };
  call.operands = call.results = {type};
  return hlo::intern(std::move(call));
}

std::vector<Pieces> to_make_again(const Recording& recording, std::span<const Pieces> pieces,
                                  std::span<const uint32_t> live, std::span<const uint32_t> given) {
  Search search(recording, pieces, live, given);
  for (uint32_t p = 0; p < pieces.size(); ++p) {
    for (const uint32_t i : pieces[p]) search.look_at(p, recording.nodes[i]);
  }
  return std::move(search).found();
}

}  // namespace tpu::runtime
