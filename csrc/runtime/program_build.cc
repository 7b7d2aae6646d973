#include "runtime/program.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/why.h"

namespace tpu::runtime {

std::vector<bool> needed(const Recording& recording, std::span<const uint32_t> live) {
  std::vector<bool> wanted(recording.num_results), need(recording.nodes.size());
  for (const uint32_t i : live) wanted[i] = true;
  for (size_t i = recording.nodes.size(); i-- > 0;) {
    const Node& node = recording.nodes[i];
    need[i] = node.call->has_effect;
    for (size_t r = 0; r < node.call->results.size(); ++r) need[i] = need[i] || wanted[node.first_result + r];
    if (!need[i]) continue;
    for (size_t k = 0; k < node.call->operands.size(); ++k) {
      const Ref ref = recording.operands[node.first_operand + k];
      if (ref.kind() == Ref::kResult) wanted[ref.index()] = true;
    }
  }
  return need;
}

std::string operator_name(const hlo::Call& call) {
  const bool named = is_view(call) || call.name.find("::") != std::string_view::npos;
  return (named ? "" : "aten::") + std::string(call.name);
}

std::vector<std::string> places_of(const Recording& recording, std::span<const Line> lines) {
  std::vector<std::string> places(recording.nodes.size());
  for (size_t i = 0; i < std::min(places.size(), lines.size()); ++i) places[i] = describe(lines[i]);
  return places;
}

namespace {

// Nodes that a node stands on, itself among them.
class Ancestors {
 public:
  explicit Ancestors(const Recording& recording) : recording_(recording), maker_(recording.num_results) {
    for (size_t i = 0; i < recording.nodes.size(); ++i) {
      const Node& node = recording.nodes[i];
      for (size_t r = 0; r < node.call->results.size(); ++r) maker_[node.first_result + r] = i;
    }
  }
  size_t maker(uint32_t result) const { return maker_[result]; }
  const std::vector<bool>& of(size_t node) {
    auto [found, is_new] = known_.try_emplace(node);
    std::vector<bool>& below = found->second;
    if (!is_new) return below;
    below.resize(node + 1);
    below[node] = true;
    for (size_t i = node + 1; i-- > 0;) {
      if (!below[i]) continue;
      for (size_t k = 0; k < recording_.nodes[i].call->operands.size(); ++k) {
        const Ref ref = recording_.operands[recording_.nodes[i].first_operand + k];
        if (ref.kind() == Ref::kResult) below[maker_[ref.index()]] = true;
      }
    }
    return below;
  }

 private:
  const Recording& recording_;
  std::vector<size_t> maker_;  // of each result
  std::unordered_map<size_t, std::vector<bool>> known_;
};

// Which output takes the memory of each parameter, or -1. Equal types, and the output stands on every node that reads
// the parameter: where it does not, the compiler cannot know that the readers are done, and copies the parameter first.
// XLA would pair them by type alone, a parameter with its own gradient.
std::vector<int32_t> pair_donations(const Program& program, const std::vector<bool>& need) {
  const Recording& recording = program.recording;
  Ancestors ancestors(recording);
  std::vector<std::vector<size_t>> readers(recording.inputs.size());
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    if (!need[i]) continue;
    for (size_t k = 0; k < recording.nodes[i].call->operands.size(); ++k) {
      const Ref ref = recording.operands[recording.nodes[i].first_operand + k];
      if (ref.kind() == Ref::kInput) readers[ref.index()].push_back(i);
    }
  }
  const auto follows_all = [&](size_t node, const std::vector<size_t>& before) {
    if (!before.empty() && before.back() > node) return false;
    const std::vector<bool>& below = ancestors.of(node);
    return std::all_of(before.begin(), before.end(), [&](size_t reader) { return below[reader]; });
  };
  std::vector<bool> taken(program.live.size());
  std::vector<int32_t> takers;
  for (const uint32_t i : program.inputs) {
    takers.push_back(-1);
    if (!std::binary_search(program.given.begin(), program.given.end(), i)) continue;
    for (size_t o = 0; o < program.live.size(); ++o) {  // in the order in which they are made
      if (taken[o] || program.output_types[o] != recording.inputs[i]) continue;
      if (!follows_all(ancestors.maker(program.live[o]), readers[i])) continue;
      taken[o] = true;
      takers.back() = static_cast<int32_t>(o);
      break;
    }
  }
  return takers;
}

// The packed words of run-time scalars, taken apart again. Of 64 bits the upper word comes first: LLVM makes one load
// of two neighbours in the order of memory, forgets that nothing writes there, and then a loop that works in place does
// not become vectors, since what it writes might be its own scalar.
class Words {
 public:
  Words(hlo::Builder& b, hlo::Value packed) : b_(b), packed_(packed) {}
  hlo::Value next(DType dtype) {
    if (is_complex(dtype)) {
      const hlo::Value first = next(real_of(dtype)), second = next(real_of(dtype));
      return dtype == DType::kC64 ? b_.complex(second, first) : b_.complex(first, second);
    }
    hlo::Value bits = word();
    if (size_of(dtype) == 8) {
      const auto wide = [&](hlo::Value v) { return b_.convert(v, DType::kU64); };
      const hlo::Value upper = b_.shl(wide(bits), b_.scalar_int(32, DType::kU64));
      bits = b_.or_(upper, wide(word()));
    }
    return b_.bitcast(bits, dtype);
  }

 private:
  hlo::Value word() {
    const hlo::Value one = b_.slice_dim(packed_, 0, at_, at_ + 1);
    ++at_;
    return b_.reshape(one, {});
  }

  hlo::Builder& b_;
  hlo::Value packed_;
  int64_t at_ = 0;
};

// Whose users count on every digit. Views move numbers, no more.
bool rounds_in_double(const hlo::Call& call) {
  if (is_view(call)) return false;
  return std::any_of(call.results.begin(), call.results.end(),
                     [](const hlo::Type* type) { return real_of(type->dtype) == DType::kF64; });
}

}  // namespace

std::string build_alone(const hlo::Call& call) {
  hlo::Builder b;
  hlo::Values operands;
  for (const hlo::Type* type : call.operands) operands.push_back(b.parameter(*type));
  return b.finish("tpu", hlo::emit_checked(b, call, operands));
}

std::string build(Program& program, bool for_cpu, std::span<const std::string> places) {
  const Recording& recording = program.recording;
  program.inputs.clear();
  program.donates.clear();
  program.scalars.clear();
  program.word_offset = word_offsets(recording);
  program.output_types.clear();
  program.output_bytes = 0;
  const std::vector<bool> need = needed(recording, program.live);
  std::vector<bool> input_used(recording.inputs.size()), scalar_used(recording.scalars.size());
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    if (!need[i]) continue;
    const Node& node = recording.nodes[i];
    for (size_t k = 0; k < node.call->operands.size(); ++k) {
      const Ref ref = recording.operands[node.first_operand + k];
      if (ref.kind() == Ref::kInput) input_used[ref.index()] = true;
      if (ref.kind() == Ref::kScalar) scalar_used[ref.index()] = true;
    }
  }
  for (uint32_t i = 0; i < input_used.size(); ++i) {
    if (input_used[i]) program.inputs.push_back(i);
  }
  std::vector<const hlo::Type*> types(recording.num_results);
  for (const Node& node : recording.nodes) {
    for (size_t r = 0; r < node.call->results.size(); ++r) types[node.first_result + r] = node.call->results[r];
  }
  for (const uint32_t i : program.live) {
    program.output_types.push_back(types[i]);
    program.output_bytes += types[i]->bytes();
  }
  const std::vector<int32_t> takers = pair_donations(program, need);
  for (const int32_t taker : takers) program.donates.push_back(taker >= 0);

  hlo::Builder b;
  b.set_for_cpu(for_cpu);
  std::vector<hlo::Value> inputs(recording.inputs.size()), scalars(recording.scalars.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const uint32_t input = program.inputs[i];
    inputs[input] = b.parameter(
        *recording.inputs[input],
        program.donates[i] ? "tf.aliasing_output = " + std::to_string(takers[i]) + " : i32" : std::string());
  }
  int64_t words = 0;
  for (uint32_t i = 0; i < scalar_used.size(); ++i) {
    if (!scalar_used[i]) continue;
    program.scalars.push_back(i);
    words += size_of(recording.scalars[i]) / 4;
  }
  if (words > 0) {
    Words packed(b, b.parameter({DType::kU32, {words}}));
    for (const uint32_t i : program.scalars) scalars[i] = packed.next(recording.scalars[i]);
  }
  std::vector<hlo::Value> results(recording.num_results);
  std::vector<hlo::Value> operands;
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    if (!need[i]) continue;
    const Node& node = recording.nodes[i];
    operands.clear();
    for (size_t k = 0; k < node.call->operands.size(); ++k) {
      const Ref ref = recording.operands[node.first_operand + k];
      const auto& from = ref.kind() == Ref::kResult ? results : ref.kind() == Ref::kInput ? inputs : scalars;
      hlo::Value v = from[ref.index()];
      const DType want = node.call->operands[k]->dtype;
      operands.push_back(v.dtype() == want ? v : b.convert(v, want));  // only scalars travel in another dtype
    }
    if (!places.empty()) b.set_location(operator_name(*node.call), places[i]);
    hlo::Values made = hlo::emit_checked(b, *node.call, operands);
    if (for_cpu && rounds_in_double(*node.call)) made = b.optimization_barrier(made);
    std::copy(made.begin(), made.end(), results.begin() + node.first_result);
  }
  b.set_location({}, {});
  hlo::Values outputs;
  for (const uint32_t i : program.live) outputs.push_back(results[i]);
  program.is_transpose = outputs.size() == 1 && program.inputs.size() == 1 && !program.donates[0] &&
                         b.is_transpose(inputs[program.inputs[0]], outputs[0]);
  return b.finish("tpu", outputs);
}

}  // namespace tpu::runtime
