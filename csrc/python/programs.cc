#include "python/programs.h"

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"
#include "runtime/program.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

struct Asked {
  runtime::Request request;
  std::vector<runtime::Line> lines{};
  int64_t times = 0;
};

// Who watched before, and goes on to see launches.
std::atomic<const runtime::Watcher*> beside{nullptr};

// What was asked for since collect_programs(True), each program once, in the order of their first use.
struct Collection {
  std::mutex mutex;
  std::vector<Asked> asked;
  std::unordered_multimap<uint64_t, size_t> index;
};
Collection& collection() {
  static auto* const collection = new Collection;
  return *collection;
}

Asked& find_or_add(Collection& c, const runtime::Program& program) {
  const uint64_t hash = mix(program.key.structure, program.key.dimensions);
  auto [at, end] = c.index.equal_range(hash);
  for (; at != end; ++at) {
    if (c.asked[at->second].request == program) return c.asked[at->second];
  }
  c.index.emplace(hash, c.asked.size());
  return c.asked.emplace_back(program);
}

void asked(const runtime::Program& program, std::span<const runtime::Line> lines) {
  Collection& c = collection();
  const std::lock_guard lock(c.mutex);
  find_or_add(c, program).lines.assign(lines.begin(), lines.end());
}

void launched(const runtime::Program& program, std::chrono::steady_clock::time_point start) {
  if (const runtime::Watcher* other = beside.load()) other->launched(program, start);
  Collection& c = collection();
  const std::lock_guard lock(c.mutex);
  ++find_or_add(c, program).times;
}

void collect(bool on, bool dry) {
  static const runtime::Watcher watching{&asked, &launched, false}, instead{&asked, &launched, true};
  if (!on) {
    runtime::set_watcher(beside.exchange(nullptr));
    return;
  }
  const runtime::Watcher* before = runtime::set_watcher(dry ? &instead : &watching);
  if (before != &watching && before != &instead) beside.store(before);
  Collection& c = collection();
  const std::lock_guard lock(c.mutex);
  c.asked.clear();
  c.index.clear();
}

py::dict tensor(const hlo::Type& type) {
  py::dict d;
  d["type"] = type.str();
  d["bytes"] = type.bytes();
  return d;
}

// As StableHLO for a target whose compiler does not contract products and sums, which is that of every TPU.
py::dict describe(const Asked& asked) {
  runtime::Program program(asked.request);
  const runtime::Recording& recording = program.recording;
  const std::vector<std::string> places = runtime::places_of(recording, asked.lines);
  const bool for_cpu = false;
  py::dict d;
  d["name"] = runtime::name_of(recording, program.live);
  d["times"] = asked.times;
  try {
    d["text"] = runtime::build(program, for_cpu);
    d["located"] = runtime::build(program, for_cpu, places);
  } catch (const hlo::BuildError& error) {
    d["error"] = std::string(error.what());
    return d;
  }
  std::vector<size_t> maker(recording.num_results);
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    const auto& results = recording.nodes[i].call->results;
    std::fill_n(maker.begin() + recording.nodes[i].first_result, results.size(), i);
  }
  py::list inputs, outputs, ops;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    py::dict input = tensor(*recording.inputs[program.inputs[i]]);
    input["donated"] = static_cast<bool>(program.donates[i]);
    inputs.append(input);
  }
  for (size_t i = 0; i < program.live.size(); ++i) {
    const size_t node = maker[program.live[i]];
    py::dict output = tensor(*program.output_types[i]);
    output["op"] = std::string(recording.nodes[node].call->name);
    output["line"] = places[node];
    outputs.append(output);
  }
  const std::vector<bool> need = runtime::needed(recording, program.live);
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    if (need[i]) ops.append(py::make_tuple(std::string(recording.nodes[i].call->name), places[i]));
  }
  d["inputs"] = inputs;
  d["outputs"] = outputs;
  d["ops"] = ops;
  return d;
}

std::vector<Asked> everything() {
  Collection& c = collection();
  const std::lock_guard lock(c.mutex);
  return c.asked;
}

py::list collected() {
  py::list list;
  for (const Asked& a : everything()) list.append(describe(a));
  return list;
}

// Each operation of them once, as a program of its own: (operator, StableHLO).
py::list collected_calls() {
  std::unordered_set<const hlo::Call*> seen;
  py::list list;
  for (const Asked& a : everything()) {
    for (const runtime::Node& node : a.request.recording.nodes) {
      if (!seen.insert(node.call).second) continue;
      list.append(py::make_tuple(std::string(node.call->name), runtime::build_alone(*node.call)));
    }
  }
  return list;
}

}  // namespace

void bind_programs(py::module_& m) {
  m.def("collect_programs", &collect, py::arg("on"), py::arg("dry") = false);
  m.def("collected_programs", &collected);
  m.def("collected_calls", &collected_calls);
}

}  // namespace tpu::python
