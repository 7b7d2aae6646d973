// Cuts that the stream of nodes itself asks for.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "runtime/region.h"

namespace tpu::runtime {

bool Region::is_loop(size_t period) const {
  const auto& nodes = work_.recording.nodes;
  const size_t begin = nodes.size() - period, before = begin - period;
  const uint32_t first = nodes[begin].first_result, step = first - nodes[before].first_result;
  std::unordered_set<uint32_t> own, shared;
  for (size_t i = begin; i < nodes.size(); ++i) {
    for (size_t k = 0; k < nodes[i].call->operands.size(); ++k) {
      const Ref now = work_.recording.operands[nodes[i].first_operand + k];
      const Ref then = work_.recording.operands[nodes[i - period].first_operand + k];
      if (now.kind() == Ref::kScalar) continue;
      const bool result = now.kind() == Ref::kResult;
      if (result && now.index() >= first) continue;
      const bool follows = result && then.kind() == Ref::kResult && now.index() == then.index() + step;
      // A result of the last period, or what the last period used in the same place.
      (now == then || (follows && now.index() + step >= first) ? shared : own).insert(now.bits());
    }
  }
  return own.size() < shared.size();
}

size_t Region::narrowest(size_t first, size_t last) const {
  const auto& nodes = work_.recording.nodes;
  std::vector<size_t> last_use(work_.recording.num_results, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (size_t k = 0; k < nodes[i].call->operands.size(); ++k) {
      const Ref ref = work_.recording.operands[nodes[i].first_operand + k];
      if (ref.kind() == Ref::kResult) last_use[ref.index()] = i;
    }
  }
  std::vector<int64_t> change(nodes.size() + 2, 0);  // of the bytes that cross, from one boundary to the next
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (size_t r = 0; r < nodes[i].call->results.size(); ++r) {
      const size_t use = last_use[nodes[i].first_result + r];
      if (use <= i) continue;
      change[i + 1] += nodes[i].call->results[r]->bytes();
      change[use + 1] -= nodes[i].call->results[r]->bytes();
    }
  }
  size_t best = first;
  int64_t least = INT64_MAX, crossing = 0;
  for (size_t b = 0; b <= last; ++b) {
    crossing += change[b];
    if (b >= first && crossing < least) {
      least = crossing;
      best = b;
    }
  }
  return best;
}

void Region::consider(Repeats::Candidate& found) {
  const size_t n = work_.recording.nodes.size(), period = found.period;
  // A period of which the region cannot hold two is cut as it is.
  if (2 * period <= kMaxNodes) {
    if (n < 2 * period) return found.look_again_after(2 * period - n);
    if (found.run < Repeats::kMinBlocks && !is_loop(period)) {
      return found.look_again_after(std::min(found.run, Repeats::kMinBlocks - found.run));
    }
  }
  // The first period that the region holds whole.
  const size_t begins = found.run + period < n ? n - found.run - period : 0;
  const size_t boundary = narrowest(begins + 1, std::min(begins + period, n));
  repeats_.settle(found, n - boundary);
}

Status Region::cut_due_locked() {
  while (repeats_.suspects()) {
    Repeats::Candidate* const found = repeats_.suspect();
    if (found != nullptr) consider(*found);
  }
  while (repeats_.at_boundary()) {
    // A cap may have cut beyond the boundary.
    if (const size_t behind = repeats_.behind(); behind < work_.recording.nodes.size()) {
      TPU_RETURN_IF_ERROR(behind == 0 ? launch_locked() : launch_first(work_.recording.nodes.size() - behind));
    }
    repeats_.passed();
  }
  return full() ? launch_locked() : Status();
}

void Region::replay(Work& from, size_t begin, size_t end) {
  const auto& nodes = from.recording.nodes;
  const uint32_t first = nodes[begin].first_result;
  // Words of the scalars, which stand one after the other.
  const auto words_of = [](DType travels_as) { return static_cast<size_t>(size_of(travels_as) / 4); };
  size_t next_scalar = 0, next_word = 0;
  const auto skip_to = [&](size_t scalar) {
    while (next_scalar < scalar) next_word += words_of(from.recording.scalars[next_scalar++]);
  };
  std::vector<Ref> operands;
  for (size_t i = begin; i < end; ++i) {
    operands.clear();
    const hlo::Call& call = *nodes[i].call;
    for (size_t k = 0; k < call.operands.size(); ++k) {
      const Ref ref = from.recording.operands[nodes[i].first_operand + k];
      if (ref.kind() == Ref::kScalar) {
        skip_to(ref.index());
        const DType travels_as = from.recording.scalars[ref.index()];
        operands.push_back(scalar(travels_as, std::span(&from.words[next_word], words_of(travels_as))));
      } else if (ref.kind() == Ref::kResult && ref.index() >= first) {
        operands.emplace_back(Ref::kResult, ref.index() - first);
      } else {
        operands.push_back(input(*(ref.kind() == Ref::kInput ? from.inputs : from.results)[ref.index()]));
      }
    }
    const uint32_t made = push(&call, operands, from.lines[i]);
    for (uint32_t r = 0; r < call.results.size(); ++r) {
      Value* const value = std::exchange(from.results[nodes[i].first_result + r], nullptr);
      if (value == nullptr) continue;
      value->defer(this, made + r);
      work_.results[made + r] = value;
    }
  }
}

Status Region::launch_first(size_t count) {
  Work whole = std::exchange(work_, {});
  const auto& nodes = whole.recording.nodes;
  replay(whole, 0, count);
  // What the rest reads is held, so that it comes out of the first part, and its memory is not given away.
  std::vector<ValuePtr> held;
  const uint32_t first = nodes[count].first_result;
  for (size_t k = nodes[count].first_operand; k < whole.recording.operands.size(); ++k) {
    const Ref ref = whole.recording.operands[k];
    if (ref.kind() == Ref::kInput) held.push_back(ValuePtr::share(whole.inputs[ref.index()]));
    if (ref.kind() != Ref::kResult || ref.index() >= first) continue;
    held.push_back(result(ref.index()));
    held.back()->line = whole.lines[maker(whole.recording, ref.index())];
    Value*& slot = whole.results[ref.index()];
    if (slot != nullptr) continue;
    held.back()->retain();
    slot = held.back().get();
  }
  // The account of what `whole` references would hide that an input has no other owner.
  for (Value*& v : whole.inputs) v->release();
  const Status status = launch_locked();
  replay(whole, count, nodes.size());
  whole.inputs.clear();
  whole.clear();
  return status;
}

}  // namespace tpu::runtime
