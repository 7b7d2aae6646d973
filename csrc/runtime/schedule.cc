#include "runtime/schedule.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/by_request.h"
#include "runtime/launch.h"
#include "runtime/remake.h"
#include "runtime/split.h"

namespace tpu::runtime {
namespace {

bool contains(std::span<const uint32_t> ascending, uint32_t i) {
  return std::binary_search(ascending.begin(), ascending.end(), i);
}

// Takes a piece out of a recording, with numbers of its own.
class Cutter {
 public:
  Cutter(const Recording& whole, Piece& piece, std::span<const uint32_t> again)
      : whole_(whole), piece_(piece), again_(again) {}

  void cut(std::span<const uint32_t> nodes) {
    for (const uint32_t i : nodes) {
      const uint32_t first = add(i);
      const Node& node = whole_.nodes[i];
      for (uint32_t r = 0; r < node.call->results.size(); ++r) made_.push_back({node.first_result + r, i, first + r});
    }
  }
  // What others may read, in the piece's order: numbers in the region, and of the result here.
  struct Made {
    uint32_t result, node, here;
  };
  const std::vector<Made>& made() const { return made_; }

 private:
  // Returns the number of the node's first result here.
  uint32_t add(uint32_t i) {
    const Node& node = whole_.nodes[i];
    std::vector<Ref> operands;
    for (const Ref ref : whole_.operands_of(node)) operands.push_back(here(ref));
    const uint32_t first = append_here(i, node.call, operands);
    for (uint32_t r = 0; r < node.call->results.size(); ++r) {
      results_.emplace(node.first_result + r, Ref(Ref::kResult, first + r));
    }
    return first;
  }
  // What is made again reads through fences, or the compiler would find that it is made already, and keep that.
  Ref add_again(uint32_t i, uint32_t result) {
    const Node& node = whole_.nodes[i];
    std::vector<Ref> operands;
    for (size_t k = 0; k < node.call->operands.size(); ++k) {
      Ref ref = here(whole_.operands_of(node)[k]);
      if (ref.kind() == Ref::kInput) ref = {Ref::kResult, append_here(i, fence(node.call->operands[k]), {&ref, 1})};
      operands.push_back(ref);
    }
    const uint32_t first = append_here(i, node.call, operands);
    const Ref made(Ref::kResult, first + result - node.first_result);
    results_.emplace(result, made);
    return made;
  }
  uint32_t append_here(uint32_t i, const hlo::Call* call, std::span<const Ref> operands) {
    piece_.nodes.push_back(i);
    return append(piece_.request.recording, piece_.request.key, call, operands);
  }
  Ref here(Ref ref) {
    if (ref.kind() == Ref::kScalar) {
      piece_.scalars.push_back(ref.index());
      piece_.request.recording.scalars.push_back(whole_.scalars[ref.index()]);
      return {Ref::kScalar, static_cast<uint32_t>(piece_.scalars.size() - 1)};
    }
    if (ref.kind() == Ref::kResult) {
      if (const auto found = results_.find(ref.index()); found != results_.end()) return found->second;
      if (contains(again_, ref.index())) {
        return add_again(static_cast<uint32_t>(maker(whole_, ref.index())), ref.index());
      }
    }
    const auto [at, is_new] = inputs_.try_emplace(ref.bits(), Ref::kInput, static_cast<uint32_t>(piece_.inputs.size()));
    if (is_new) {
      piece_.inputs.push_back(ref);
      piece_.request.recording.inputs.push_back(ref.kind() == Ref::kInput ? whole_.inputs[ref.index()] : type_of(ref));
    }
    return at->second;
  }
  const hlo::Type* type_of(Ref result) const {
    const Node& node = whole_.nodes[maker(whole_, result.index())];
    return node.call->results[result.index() - node.first_result];
  }

  const Recording& whole_;
  Piece& piece_;
  std::span<const uint32_t> again_;
  std::unordered_map<uint32_t, Ref> results_, inputs_;
  std::vector<Made> made_;
};

void make_pieces(Schedule& schedule) {
  const Recording& whole = schedule.recording;
  std::vector<std::vector<uint32_t>> parts = split(whole);
  if (parts.size() == 1) return;
  const std::vector<bool> need = needed(whole, schedule.live);
  std::unordered_map<uint32_t, size_t> last_reader;  // by bits of the Ref
  std::vector<std::vector<Cutter::Made>> made;
  for (std::vector<uint32_t>& nodes : parts) std::erase_if(nodes, [&](uint32_t i) { return !need[i]; });
  std::erase_if(parts, [](const std::vector<uint32_t>& nodes) { return nodes.empty(); });
  const std::vector<std::vector<uint32_t>> again = to_make_again(whole, parts, schedule.live, schedule.given);
  for (size_t p = 0; p < parts.size(); ++p) {
    auto piece = std::make_unique<Piece>();
    Cutter cutter(whole, *piece, again[p]);
    cutter.cut(parts[p]);
    made.push_back(cutter.made());
    for (const Ref ref : piece->inputs) last_reader[ref.bits()] = p;
    schedule.pieces.push_back(std::move(piece));
  }
  for (size_t p = 0; p < schedule.pieces.size(); ++p) {
    Piece& piece = *schedule.pieces[p];
    for (const auto [result, node, here] : made[p]) {
      if (!contains(schedule.live, result) && !last_reader.contains(Ref(Ref::kResult, result).bits())) continue;
      piece.request.live.push_back(here);
      piece.outputs.push_back(result);
      piece.makers.push_back(node);
    }
    for (uint32_t k = 0; k < piece.inputs.size(); ++k) {
      const Ref ref = piece.inputs[k];
      if (is_held(ref, schedule.live, schedule.given) || last_reader[ref.bits()] != p) continue;
      piece.request.given.push_back(k);
      piece.last.push_back(ref);
    }
  }
}

std::vector<Line> lines_of(const Piece& piece, const std::vector<Line>& lines) {
  std::vector<Line> found;
  for (const uint32_t i : piece.nodes) found.push_back(lines[i]);
  return found;
}

Status launch(Device& device, const Schedule& schedule, const Piece& piece, Holdings held) {
  const Program* program = piece.program.load(std::memory_order_acquire);
  if (program == nullptr || watcher() != nullptr) {
    const Request& r = piece.request;
    TPU_ASSIGN(program, program_for(device, r.key, r.recording, r.live, r.given, lines_of(piece, held.lines)));
    piece.program.store(program, std::memory_order_release);
  }
  std::vector<Parameter> parameters;
  for (const uint32_t i : program->inputs)
    parameters.push_back({held.slot(piece.inputs[i]), contains(program->given, i)});
  std::vector<uint32_t> words;
  for (const uint32_t s : program->scalars) {
    const uint32_t scalar = piece.scalars[s];
    held.append_words(schedule.recording, scalar, schedule.word_offset[scalar], words);
  }
  std::vector<Value*> outputs;
  for (size_t i = 0; i < piece.outputs.size(); ++i) {
    outputs.push_back(held.promised(piece.outputs[i], program->output_types[i], piece.makers[i]));
  }
  return launch(device, *program, parameters, words, outputs);
}

}  // namespace

Value* Holdings::promised(uint32_t r, const hlo::Type* type, uint32_t node) const {
  Value*& value = results[r];
  if (value == nullptr) {
    value = new Value(type);
    value->line = lines[node];
  }
  return value;
}

void Holdings::append_words(const Recording& recording, uint32_t scalar, uint32_t offset,
                            std::vector<uint32_t>& out) const {
  const auto* from = &words[offset];
  out.insert(out.end(), from, from + size_of(recording.scalars[scalar]) / 4);
}

Schedule::Schedule(Request request) : Request(std::move(request)), word_offset(word_offsets(recording)) {
  make_pieces(*this);
}

const Schedule& schedule_for(const Key& key, const Recording& recording, std::span<const uint32_t> live,
                             std::span<const uint32_t> given) {
  static auto* const table = new ByRequest<Schedule>;
  return table->find_or_add(key, recording, live, given).first;
}

Status launch(Device& device, const Schedule& schedule, Holdings held) {
  Status first;
  const auto drop = [](Value*& v) {
    if (v != nullptr) std::exchange(v, nullptr)->release();
  };
  for (const std::unique_ptr<Piece>& piece : schedule.pieces) {
    Status status = launch(device, schedule, *piece, held);
    if (first.ok()) first = std::move(status);
    const Watcher* const watch = watcher();
    if (!first.ok() && (watch == nullptr || !watch->dry)) return first;  // a dry run asks for all of them
    for (const Ref ref : piece->last) drop(held.slot(ref));
  }
  return first;
}

}  // namespace tpu::runtime
