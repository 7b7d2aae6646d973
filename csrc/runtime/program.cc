#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"

namespace tpu::runtime {

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

cache::Fingerprint fingerprint(const Device& device, const Program& program) {
  uint64_t structure = program.key.structure;
  for (const uint32_t i : program.live) structure = mix(structure, i);
  structure = mix(structure, ~uint64_t{0});
  for (const uint32_t i : program.given) structure = mix(structure, i);
  return {structure, program.key.dimensions, device.options_key()};
}

// Of an earlier compile, perhaps in another process. Its bytes are never serialized again: the CPU plugin then loses
// functions.
std::unique_ptr<pjrt::Executable> stored(const Device& device, const cache::Fingerprint& key, const std::string& text) {
  const auto bytes = device.store().find(key, text);
  if (!bytes) return nullptr;
  auto loaded = device.client().load(*bytes);
  if (!loaded.ok()) {
    device.store().drop(key);
    return nullptr;
  }
  counters().disk_hits.fetch_add(1, std::memory_order_relaxed);
  return std::move(*loaded);
}

// Finds the executable in the store, or compiles it.
Status compile(Device& device, Program& program, std::span<const Line> lines) {
  const auto start = std::chrono::steady_clock::now();
  std::string text;
  try {
    text = build(program, device.on_cpu());
  } catch (const std::exception& error) {
    return internal(culprit(device, program, lines) + " has no program: " + error.what());
  }
  if (const char* file = std::getenv("TORCH_TPU_PRINT_PROGRAMS"); file != nullptr && *file == '1') {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  const cache::Fingerprint key = fingerprint(device, program);
  for (const Node& node : program.recording.nodes) {
    if (told_to_fail(*node.call)) {
      return internal(culprit(device, program, lines) + " does not compile: TORCH_TPU_FAIL_COMPILE names it");
    }
  }
  program.executable = stored(device, key, text);
  if (program.executable == nullptr) {
    auto made = device.client().compile(text, device.compile_options());
    if (!made.ok()) {
      return Status(made.status().code(),
                    culprit(device, program, lines) + " does not compile: " + made.status().message());
    }
    program.executable = std::move(*made);
    counters().compiles.fetch_add(1, std::memory_order_relaxed);
    counters().compile_ns.fetch_add((std::chrono::steady_clock::now() - start).count(), std::memory_order_relaxed);
    if (device.store().on()) {
      if (const auto bytes = program.executable->serialize(); bytes.ok()) device.store().keep(key, text, *bytes);
    }
  }
  program.name = name_of(program.recording, program.live);
  program.temporary_bytes = program.executable->memory().temporaries;
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
