#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"

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

namespace {

// Which output takes the memory of each parameter, or -1. Equal types, and the output is made by the last node that
// reads the parameter or after it: the compiler would copy the parameter to keep it from an earlier one. XLA would pair
// them by type alone, a parameter with its own gradient.
std::vector<int32_t> pair_donations(const Program& program, const std::vector<bool>& need) {
  const Recording& recording = program.recording;
  std::vector<size_t> last_use(recording.inputs.size(), 0), maker(recording.num_results, 0);
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    const Node& node = recording.nodes[i];
    for (size_t r = 0; r < node.call->results.size(); ++r) maker[node.first_result + r] = i;
    if (!need[i]) continue;
    for (size_t k = 0; k < node.call->operands.size(); ++k) {
      const Ref ref = recording.operands[node.first_operand + k];
      if (ref.kind() == Ref::kInput) last_use[ref.index()] = i;
    }
  }
  std::vector<bool> taken(program.live.size());
  std::vector<int32_t> takers;
  for (const uint32_t i : program.inputs) {
    takers.push_back(-1);
    if (!std::binary_search(program.given.begin(), program.given.end(), i)) continue;
    for (size_t o = 0; o < program.live.size(); ++o) {  // in the order in which they are made
      if (taken[o] || program.output_types[o] != recording.inputs[i] || maker[program.live[o]] < last_use[i]) continue;
      taken[o] = true;
      takers.back() = static_cast<int32_t>(o);
      break;
    }
  }
  return takers;
}

// The packed words of run-time scalars, taken apart again.
class Words {
 public:
  Words(hlo::Builder& b, hlo::Value packed) : b_(b), packed_(packed) {}
  hlo::Value next(DType dtype) {
    const int64_t n = size_of(dtype) / 4;
    const hlo::Value raw = b_.slice_dim(packed_, 0, at_, at_ + n);
    at_ += n;
    if (dtype == DType::kU32) return b_.reshape(raw, {});
    if (is_complex(dtype)) {
      const DType part = real_of(dtype);
      const hlo::Value pair = b_.bitcast(part == DType::kF64 ? b_.reshape(raw, {2, 2}) : raw, part);
      const auto half = [&](int64_t i) { return b_.reshape(b_.slice_dim(pair, 0, i, i + 1), {}); };
      return b_.complex(half(0), half(1));
    }
    return b_.bitcast(n == 1 ? b_.reshape(raw, {}) : raw, dtype);
  }

 private:
  hlo::Builder& b_;
  hlo::Value packed_;
  int64_t at_ = 0;
};

}  // namespace

std::string build(Program& program) {
  const Recording& recording = program.recording;
  program.inputs.clear();
  program.donates.clear();
  program.scalars.clear();
  program.word_offset.clear();
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
  std::vector<hlo::Value> inputs(recording.inputs.size()), scalars(recording.scalars.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const uint32_t input = program.inputs[i];
    inputs[input] = b.parameter(
        *recording.inputs[input],
        program.donates[i] ? "tf.aliasing_output = " + std::to_string(takers[i]) + " : i32" : std::string());
  }
  int64_t words = 0;
  uint32_t offset = 0;
  for (uint32_t i = 0; i < scalar_used.size(); ++i) {
    program.word_offset.push_back(offset);
    const auto size = static_cast<uint32_t>(size_of(recording.scalars[i]) / 4);
    offset += size;
    if (!scalar_used[i]) continue;
    program.scalars.push_back(i);
    words += size;
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
    hlo::Values made;
    made = hlo::emit_checked(b, *node.call, operands);
    std::copy(made.begin(), made.end(), results.begin() + node.first_result);
  }
  hlo::Values outputs;
  for (const uint32_t i : program.live) outputs.push_back(results[i]);
  return b.finish("tpu", outputs);
}

namespace {

struct Entry {
  Program program;
  std::atomic<bool> ready{false};
  std::mutex compiling;
};

struct Table {
  std::mutex mutex;
  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> entries;
};
Table& table() {
  static auto* const table = new Table;
  return *table;
}

bool same(const Recording& a, const Recording& b) {
  return a.num_results == b.num_results && a.nodes == b.nodes && a.operands == b.operands && a.inputs == b.inputs &&
         a.scalars == b.scalars;
}

Entry& find_or_add(const Key& key, const Recording& recording, std::span<const uint32_t> live,
                   std::span<const uint32_t> given, bool* found) {
  uint64_t hash = mix(key.structure, key.dimensions);
  for (const uint32_t i : live) hash = mix(hash, i);
  hash = mix(hash, ~uint64_t{0});
  for (const uint32_t i : given) hash = mix(hash, i);
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  auto [at, end] = t.entries.equal_range(hash);
  for (; at != end; ++at) {
    const Program& p = at->second->program;
    if (p.key == key && std::equal(live.begin(), live.end(), p.live.begin(), p.live.end()) &&
        std::equal(given.begin(), given.end(), p.given.begin(), p.given.end()) && same(p.recording, recording)) {
      *found = true;
      return *at->second;
    }
  }
  *found = false;
  auto entry = std::make_unique<Entry>();
  entry->program.key = key;
  entry->program.recording = recording;
  entry->program.live.assign(live.begin(), live.end());
  entry->program.given.assign(given.begin(), given.end());
  return *t.entries.emplace(hash, std::move(entry))->second;
}

std::string where(const Recording& recording, size_t node, std::span<const Line> lines) {
  std::string text = "aten::" + std::string(recording.nodes[node].call->name);
  const std::string line = node < lines.size() ? describe(lines[node]) : "";
  return line.empty() ? text : text + " recorded at " + line;
}

std::string name_of(const Recording& recording, std::span<const uint32_t> live) {
  const std::vector<bool> need = needed(recording, live);
  std::vector<std::string> names;  // reads and writes of views only where there is nothing else
  std::string view;
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    if (!need[i]) continue;
    const std::string name(recording.nodes[i].call->name);
    if (name.starts_with("view.") || name.starts_with("storage.")) {
      view = name;
    } else {
      names.push_back("aten::" + name);
    }
  }
  if (names.empty()) return view;
  if (names.size() == 1) return names[0];
  return "a program of " + std::to_string(names.size()) + " ops (" + names.front() + " to " + names.back() + ")";
}

// TORCH_TPU_FAIL_COMPILE=add makes every program with that operator fail to compile: to test what follows.
bool told_to_fail(const hlo::Call& call) {
  const char* name = std::getenv("TORCH_TPU_FAIL_COMPILE");
  return name != nullptr && *name != '\0' && call.name.substr(0, call.name.find('.')) == name;
}

// A program did not compile: find the first of its nodes that does not compile alone, to name it.
std::string culprit(Device& device, const Program& program, std::span<const Line> lines) {
  const std::vector<bool> need = needed(program.recording, program.live);
  for (size_t i = 0; i < program.recording.nodes.size(); ++i) {
    if (!need[i]) continue;
    const hlo::Call& call = *program.recording.nodes[i].call;
    if (told_to_fail(call)) return where(program.recording, i, lines);
    try {
      hlo::Builder b;
      hlo::Values operands;
      for (const hlo::Type* type : call.operands) operands.push_back(b.parameter(*type));
      const std::string text = b.finish("probe", hlo::emit_checked(b, call, operands));
      if (device.client().compile(text, device.compile_options()).ok()) continue;
    } catch (const hlo::BuildError&) {
    }
    return where(program.recording, i, lines);
  }
  return "a region of " + std::to_string(program.recording.nodes.size()) + " ops";
}

Status compile(Device& device, Program& program, std::span<const Line> lines) {
  const auto start = std::chrono::steady_clock::now();
  std::string text;
  try {
    text = build(program);
  } catch (const std::exception& error) {
    return internal(culprit(device, program, lines) + " has no program: " + error.what());
  }
  if (const char* file = std::getenv("TORCH_TPU_PRINT_PROGRAMS"); file != nullptr && *file == '1') {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  auto made = device.client().compile(text, device.compile_options());
  for (const Node& node : program.recording.nodes) {
    if (told_to_fail(*node.call)) made = internal("TORCH_TPU_FAIL_COMPILE names it");
  }
  if (!made.ok()) {
    return Status(made.status().code(),
                  culprit(device, program, lines) + " does not compile: " + made.status().message());
  }
  program.executable = std::move(*made);
  program.name = name_of(program.recording, program.live);
  program.temporary_bytes = program.executable->memory().temporaries;
  counters().compiles.fetch_add(1, std::memory_order_relaxed);
  counters().compile_ns.fetch_add((std::chrono::steady_clock::now() - start).count(), std::memory_order_relaxed);
  return {};
}

}  // namespace

Result<const Program*> program_for(Device& device, const Key& key, const Recording& recording,
                                   std::span<const uint32_t> live, std::span<const uint32_t> given,
                                   std::span<const Line> lines) {
  bool found = false;
  Entry& entry = find_or_add(key, recording, live, given, &found);
  if (!entry.ready.load(std::memory_order_acquire)) {
    // One thread compiles; after a failure the next one tries again.
    const std::lock_guard lock(entry.compiling);
    if (!entry.ready.load(std::memory_order_relaxed)) TPU_RETURN_IF_ERROR(compile(device, entry.program, lines));
    entry.ready.store(true, std::memory_order_release);
  }
  if (found) counters().memory_hits.fetch_add(1, std::memory_order_relaxed);
  return &entry.program;
}

}  // namespace tpu::runtime
