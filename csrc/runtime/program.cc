#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>

#include "base/hash.h"
#include "cache/store.h"
#include "cache/target.h"
#include "runtime/by_request.h"
#include "runtime/dump.h"
#include "runtime/made.h"

namespace tpu::runtime {

namespace {

struct Entry : Program {
  using Program::Program;
  std::atomic<bool> ready{false};
  std::mutex compiling;
};

// What an executable is taken to cost in memory, with the plugin's own copies of the program, of which PJRT tells
// nothing (nor, on a CPU, of the code). Measured with both CPU plugins: 0.3 MB for a text of 2.7 kB, 1.4 for 21, 12 for
// 230.
int64_t footprint(const pjrt::Executable& executable, const std::string& text) {
  return std::max<int64_t>(executable.memory().code, 64 * (1024 + static_cast<int64_t>(text.size())));
}

std::string where(const Recording& recording, size_t node, std::span<const Line> lines) {
  std::string text = operator_name(*recording.nodes[node].call);
  const std::string line = node < lines.size() ? describe(lines[node]) : "";
  return line.empty() ? text : text + " recorded at " + line;
}

}  // namespace

uint64_t with_ends(uint64_t key, std::span<const uint32_t> live, std::span<const uint32_t> given) {
  for (const uint32_t i : live) key = mix(key, i);
  key = mix(key, ~uint64_t{0});
  for (const uint32_t i : given) key = mix(key, i);
  return key;
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
      names.push_back(operator_name(*recording.nodes[i].call));
    }
  }
  if (names.empty()) return view;
  if (names.size() == 1) return names[0];
  return "a program of " + std::to_string(names.size()) + " ops (" + names.front() + " to " + names.back() + ")";
}

namespace {

std::atomic<const Watcher*> watching{nullptr};

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
      if (device.client().compile(build_alone(call), device.compile_options()).ok()) continue;
    } catch (const hlo::BuildError&) {
    }
    return where(program.recording, i, lines);
  }
  return "a region of " + std::to_string(program.recording.nodes.size()) + " ops";
}

cache::Fingerprint fingerprint(const Device& device, const Program& program) {
  return {with_ends(program.key.structure, program.live, program.given), program.key.dimensions,
          device.store().options_key()};
}

void count(cache::Tier from) {
  Counters& c = counters();
  switch (from) {
    case cache::Tier::kCompiled: c.compiles.fetch_add(1, std::memory_order_relaxed); break;
    case cache::Tier::kShared: c.shared_hits.fetch_add(1, std::memory_order_relaxed); break;
    case cache::Tier::kDisk: c.disk_hits.fetch_add(1, std::memory_order_relaxed); break;
    case cache::Tier::kRemote: c.remote_hits.fetch_add(1, std::memory_order_relaxed); break;
  }
}

// Finds the executable in the store, or compiles it. What was found is never serialized again: the CPU plugin then
// loses functions. `again`: it was there, and was dropped.
Result<std::unique_ptr<pjrt::Executable>> make(Device& device, const Program& program, const std::string& text,
                                               std::span<const Line> lines, bool again) {
  const auto start = std::chrono::steady_clock::now();
  for (const Node& node : program.recording.nodes) {
    if (told_to_fail(*node.call)) {
      return internal(culprit(device, program, lines) + " does not compile: TORCH_TPU_FAIL_COMPILE names it");
    }
  }
  const cache::Fingerprint key = fingerprint(device, program);
  const auto done = [&](cache::Tier from, const pjrt::Executable& executable) {
    const int64_t ns = (std::chrono::steady_clock::now() - start).count();
    if (from == cache::Tier::kCompiled) counters().compile_ns.fetch_add(ns, std::memory_order_relaxed);
    count(from);
    note_made({&program, key, from, start, ns, executable.memory().temporaries, again, Lines(lines)});
  };
  std::string options = program.is_transpose ? device.transpose_options() : device.compile_options();
  std::optional<cache::Search> search;
  if (const std::string directory = dump_directory(); directory.empty()) {
    search.emplace(device.store(), key, text);
  } else {  // it is compiled here then, and its executable, which names the folder, not kept
    TPU_ASSIGN(const std::string folder, dump(directory, program, device.on_cpu(), lines));
    pjrt::CompileOptions telling;
    telling.overrides["xla_dump_to"] = folder;
    telling.overrides["xla_dump_hlo_as_text"] = true;
    options += telling.serialize();  // two messages one after the other are one, with the fields of both
  }
  while (search) {
    const auto found = search->next();
    if (!found) break;
    auto loaded = device.client().load(found->executable);
    if (!loaded.ok()) {
      search->reject();
      continue;
    }
    search->accept();
    done(found->from, **loaded);
    return std::move(*loaded);
  }
  auto made = device.client().compile(text, options);
  if (!made.ok()) {
    return Status(made.status().code(),
                  culprit(device, program, lines) + " does not compile: " + made.status().message());
  }
  done(cache::Tier::kCompiled, **made);
  if (search && device.store().on()) {
    if (const auto bytes = (*made)->serialize(); bytes.ok()) {
      static const std::string made_by = cache::made_by(device.client(), device.compile_options());
      search->keep({program.name, made_by}, *bytes);
    } else {
      search->cannot_keep();
    }
  }
  return made;
}

// Makes the executable, and fills in what a launch needs to know.
Status compile(Device& device, Program& program, std::span<const Line> lines) {
  std::string text;
  try {
    text = build(program, device.on_cpu());
  } catch (const std::exception& error) {
    return internal(culprit(device, program, lines) + " has no program: " + error.what());
  }
  if (const char* file = std::getenv("TORCH_TPU_PRINT_PROGRAMS"); file != nullptr && *file == '1') {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  program.name = name_of(program.recording, program.live);
  TPU_ASSIGN(auto executable, make(device, program, text, lines, /*again=*/false));
  program.temporary_bytes = executable->memory().temporaries;
  const int64_t bytes = footprint(*executable, text);
  (void)program.executable.put(std::move(executable), bytes);
  return {};
}

}  // namespace

const Watcher* set_watcher(const Watcher* watcher) { return watching.exchange(watcher, std::memory_order_acq_rel); }
const Watcher* watcher() { return watching.load(std::memory_order_acquire); }

Result<const Program*> program_for(Device& device, const Key& key, const Recording& recording,
                                   std::span<const uint32_t> live, std::span<const uint32_t> given,
                                   std::span<const Line> lines) {
  static auto* const table = new ByRequest<Entry>;
  const auto [entry, found] = table->find_or_add(key, recording, live, given);
  if (const Watcher* watch = watcher()) {
    watch->asked(entry, lines);
    if (watch->dry) {
      watch->launched(entry, {});
      return Status(Code::kUnavailable, "nothing is computed in a dry run, so there is no value to read");
    }
  }
  if (!entry.ready.load(std::memory_order_acquire)) {
    // One thread compiles; after a failure the next one tries again.
    const std::lock_guard lock(entry.compiling);
    if (!entry.ready.load(std::memory_order_relaxed)) TPU_RETURN_IF_ERROR(compile(device, entry, lines));
    entry.ready.store(true, std::memory_order_release);
  }
  if (found) counters().memory_hits.fetch_add(1, std::memory_order_relaxed);
  return &entry;
}

Result<Residence::Use> executable_of(Device& device, const Program& program) {
  // The program is read by other threads, which its making would write: it is made once more beside it.
  Program again(static_cast<const Request&>(program));
  again.name = program.name;
  const std::string text = build(again, device.on_cpu());
  TPU_ASSIGN(auto executable, make(device, program, text, {}, /*again=*/true));
  const int64_t bytes = footprint(*executable, text);
  return program.executable.put(std::move(executable), bytes);
}

}  // namespace tpu::runtime
