#include "runtime/one_by_one.h"

#include <algorithm>
#include <utility>

#include "runtime/launch.h"

namespace tpu::runtime {
namespace {

class OneByOne {
 public:
  OneByOne(Device& device, const Recording& recording, std::span<const uint32_t> live, Holdings held)
      : device_(device), recording_(recording), live_(live), held_(held), word_offset_(word_offsets(recording)) {}

  Status run() {
    const std::vector<bool> need = needed(recording_, live_);
    find_last_readers(need);
    for (size_t i = 0; i < recording_.nodes.size(); ++i) {
      if (!need[i]) continue;
      TPU_RETURN_IF_ERROR(launch_node(i));
      drop_after(i);
    }
    return {};
  }

 private:
  // The maker of a result that nobody reads counts as its reader; those that are live are read later.
  void find_last_readers(const std::vector<bool>& need) {
    last_of_result_.resize(recording_.num_results);
    last_of_input_.resize(recording_.inputs.size());
    for (size_t i = 0; i < recording_.nodes.size(); ++i) {
      if (!need[i]) continue;
      const Node& node = recording_.nodes[i];
      std::fill_n(last_of_result_.begin() + node.first_result, node.call->results.size(), i);
      for (const Ref ref : recording_.operands_of(node)) {
        if (ref.kind() != Ref::kScalar) last_reader(ref) = i;
      }
    }
    for (const uint32_t r : live_) last_of_result_[r] = SIZE_MAX;
  }
  size_t& last_reader(Ref ref) {
    return ref.kind() == Ref::kInput ? last_of_input_[ref.index()] : last_of_result_[ref.index()];
  }

  // The node as a recording, with numbers of its own.
  void take_out(const Node& node) {
    one_.recording.nodes.clear();
    one_.recording.operands.clear();
    one_.recording.inputs.clear();
    one_.recording.scalars.clear();
    one_.recording.num_results = 0;
    one_.key = {};
    read_.clear();
    scalars_.clear();
    operands_.clear();
    for (const Ref ref : recording_.operands_of(node)) {
      if (ref.kind() == Ref::kScalar) {
        operands_.emplace_back(Ref::kScalar, static_cast<uint32_t>(scalars_.size()));
        scalars_.push_back(ref.index());
        one_.recording.scalars.push_back(recording_.scalars[ref.index()]);
        continue;
      }
      const auto number = static_cast<uint32_t>(std::find(read_.begin(), read_.end(), ref) - read_.begin());
      if (number == read_.size()) {
        read_.push_back(ref);
        one_.recording.inputs.push_back(held_.slot(ref)->type);
      }
      operands_.emplace_back(Ref::kInput, number);
    }
    append(one_.recording, one_.key, node.call, operands_);
  }

  Status launch_node(size_t i) {
    const Node& node = recording_.nodes[i];
    take_out(node);
    // As in Strict: only what is written in place gives its memory, so that each operator has few programs.
    one_.given.clear();
    if (node.call->name == "view.write" && is_last(operands_[0], i)) one_.given.push_back(0);
    one_.live.resize(node.call->results.size());
    for (uint32_t r = 0; r < one_.live.size(); ++r) one_.live[r] = r;
    TPU_ASSIGN(const Program* program, program_for(device_, one_.key, one_.recording, one_.live, one_.given,
                                                   std::span(held_.lines).subspan(i, 1)));
    parameters_.clear();
    for (const uint32_t k : program->inputs) {
      parameters_.push_back({held_.slot(read_[k]), std::ranges::binary_search(one_.given, k)});
    }
    words_.clear();
    for (const uint32_t s : program->scalars) {
      held_.append_words(recording_, scalars_[s], word_offset_[scalars_[s]], words_);
    }
    outputs_.clear();
    for (uint32_t r = 0; r < one_.live.size(); ++r) {
      outputs_.push_back(held_.promised(node.first_result + r, node.call->results[r], static_cast<uint32_t>(i)));
    }
    return launch(device_, *program, parameters_, words_, outputs_);
  }
  // Whether node i is the last to read it, and nobody else holds it.
  bool is_last(Ref operand, size_t i) {
    const Ref ref = read_[operand.index()];
    return last_reader(ref) == i && held_.slot(ref)->references() == 1;
  }

  void drop_after(size_t i) {
    const auto drop = [](Value*& v) { std::exchange(v, nullptr)->release(); };
    for (const Ref ref : read_) {
      if (last_reader(ref) == i) drop(held_.slot(ref));
    }
    const Node& node = recording_.nodes[i];
    for (uint32_t r = node.first_result; r < node.first_result + node.call->results.size(); ++r) {
      if (last_of_result_[r] == i) drop(held_.results[r]);
    }
  }

  Device& device_;
  const Recording& recording_;
  std::span<const uint32_t> live_;
  Holdings held_;
  const std::vector<uint32_t> word_offset_;
  std::vector<size_t> last_of_result_, last_of_input_;
  // Of the node at hand; kept for their memory.
  Request one_;
  std::vector<Ref> read_, operands_;  // in the recording; as the node sees them
  std::vector<uint32_t> scalars_, words_;
  std::vector<Parameter> parameters_;
  std::vector<Value*> outputs_;
};

}  // namespace

Status launch_one_by_one(Device& device, const Recording& recording, std::span<const uint32_t> live, Holdings held) {
  return OneByOne(device, recording, live, held).run();
}

}  // namespace tpu::runtime
