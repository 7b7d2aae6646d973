#include "runtime/region.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/launch.h"
#include "runtime/one_by_one.h"
#include "runtime/program.h"
#include "runtime/schedule.h"
#include "runtime/split.h"

namespace tpu::runtime {
namespace {

bool flag(const char* name) {
  const char* v = std::getenv(name);
  return v != nullptr && *v != '\0' && std::strcmp(v, "0") != 0;
}

std::atomic<Mode>& default_mode_cell() {
  static std::atomic<Mode> mode{flag("TORCH_TPU_LAUNCH_BLOCKING")  ? Mode::kDebug
                                : flag("TORCH_TPU_DEFER_AND_FUSE") ? Mode::kDefer
                                                                   : Mode::kStrict};
  return mode;
}

std::atomic<void (*)()> thread_hook{nullptr};

// Regions outlive their threads, because a value may still be promised by one; a thread that ends hands its region on.
struct Registry {
  std::mutex mutex;
  std::vector<Region*> all, idle;
};
Registry& registry() {
  static auto* const registry = new Registry;
  return *registry;
}

Region* take_region() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.idle.empty()) {
    r.all.push_back(new Region);
    r.idle.push_back(r.all.back());
  }
  Region* region = r.idle.back();
  r.idle.pop_back();
  return region;
}

struct OfThread {
  Region* const region = take_region();
  void begin() {
    (void)region->set_mode(default_mode());
    if (const auto hook = thread_hook.load()) hook();
  }
  ~OfThread() {
    // The next owner appends to what is left; whoever needs a value of it cuts it.
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    r.idle.push_back(region);
  }
};

// Before the region is locked, since it may take the GIL.
Line line_of_cut(const Region& region) { return region.mode() == Mode::kDefer ? current_line() : Line{}; }

}  // namespace

Mode default_mode() { return default_mode_cell().load(std::memory_order_relaxed); }
void set_default_mode(Mode mode) { default_mode_cell().store(mode, std::memory_order_relaxed); }
void set_thread_hook(void (*hook)()) { thread_hook.store(hook); }

DType word_dtype(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kC64:
    case DType::kC128:
    case DType::kS64:
    case DType::kU64:
    case DType::kU32: return t;
    default: return is_float(t) ? DType::kF32 : DType::kS32;
  }
}

Region& Region::of_new_thread() {
  static thread_local OfThread mine;
  current_ = mine.region;
  mine.begin();
  return *current_;
}

Scratch::Scratch() : outer_(&Region::current()) {
  region_.holds = 1;
  Region::current_ = &region_;
}

Scratch::~Scratch() {
  Region::current_ = outer_;
  const std::lock_guard lock(region_.mutex);
  for (Value* v : region_.work_.results) {
    if (v != nullptr && v->references() > 1)
      v->fail(internal("a tensor of a graph was kept while it was traced, and has no value"));
  }
}

Status Region::cut_all() {
  std::vector<Region*> all;
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    all = r.all;
  }
  Status first;
  for (Region* region : all) {
    const Status status = region->cut();
    if (first.ok()) first = status;
  }
  return first;
}

Status Region::set_mode(Mode mode) {
  if (Device::forked()) {  // nothing will be launched, and who holds the mutex may not be in this process
    mode_ = mode;
    return {};
  }
  const std::lock_guard lock(mutex);
  if (mode == mode_) return {};
  const Status status = cut_locked();
  mode_ = mode;
  novelty_ = {};
  return status;
}

Ref Region::input(Value& value) {
  if (value.region() == this) return {Ref::kResult, value.index()};
  constexpr size_t kFew = 8;
  const auto number = [&](size_t i) { return Ref(Ref::kInput, static_cast<uint32_t>(i)); };
  if (work_.inputs.size() <= kFew) {
    for (size_t i = 0; i < work_.inputs.size(); ++i) {
      if (work_.inputs[i] == &value) return number(i);
    }
  }
  const auto slot_of = [&](const Value* v) {
    size_t at = mix(0, reinterpret_cast<uintptr_t>(v)) & (work_.input_index.size() - 1);
    while (work_.input_index[at] != 0 && work_.inputs[work_.input_index[at] - 1] != v)
      at = (at + 1) & (work_.input_index.size() - 1);
    return at;
  };
  if (work_.inputs.size() > kFew) {
    const size_t at = slot_of(&value);
    if (work_.input_index[at] != 0) return number(work_.input_index[at] - 1);
  }
  value.retain();
  work_.inputs.push_back(&value);
  work_.recording.inputs.push_back(value.type);
  if (work_.inputs.size() > kFew) {
    if (work_.inputs.size() * 2 > work_.input_index.size()) {
      work_.input_index.assign(std::max<size_t>(64, work_.input_index.size() * 2), 0);
      for (size_t i = 0; i + 1 < work_.inputs.size(); ++i)
        work_.input_index[slot_of(work_.inputs[i])] = static_cast<uint32_t>(i + 1);
    }
    work_.input_index[slot_of(&value)] = static_cast<uint32_t>(work_.inputs.size());
  }
  return number(work_.inputs.size() - 1);
}

Ref Region::scalar(DType travels_as, uint64_t low, uint64_t high) {
  return scalar(travels_as, ScalarWords(travels_as, low, high).span());
}

Ref Region::scalar(DType travels_as, std::span<const uint32_t> words) {
  const auto index = static_cast<uint32_t>(work_.recording.scalars.size());
  work_.recording.scalars.push_back(travels_as);
  work_.words.insert(work_.words.end(), words.begin(), words.end());
  return {Ref::kScalar, index};
}

Status Region::cut() {
  const Line at = line_of_cut(*this);
  const std::lock_guard lock(mutex);
  return cut_locked(at);
}

bool Region::is_one_program(std::optional<Line> read_at) {
  if (!read_at || mode() != Mode::kDefer || work_.recording.nodes.size() == 1) return true;
  const Watcher* const watch = watcher();
  if (watch != nullptr && watch->dry) return true;
  const auto& nodes = work_.recording.nodes;
  return novelty_.is_worth_a_program(work_.key.structure, nodes, *read_at) ||
         (nodes.size() >= kSplitNodes && split(work_.recording).size() > 1);
}

Result<const Program*> Region::compile_locked(std::span<const uint32_t> live, std::span<const uint32_t> given) {
  const bool effects = std::any_of(work_.recording.nodes.begin(), work_.recording.nodes.end(),
                                   [](const Node& n) { return n.call->has_effect; });
  if (live.empty() && !effects) return nullptr;
  TPU_ASSIGN(Device * device, Device::get());
  return program_for(*device, work_.key, work_.recording, live, given, work_.lines);
}

void Region::pass_on_errors(std::vector<uint32_t>& live) {
  const Watcher* const watch = watcher();
  if (watch != nullptr && watch->dry) return;  // all values are lost, and all programs asked for
  const auto is_lost = [](const Value* v) { return !v->error().ok(); };
  if (std::none_of(work_.inputs.begin(), work_.inputs.end(), is_lost)) return;
  std::vector<const Status*> lost(work_.results.size(), nullptr);
  for (const Node& node : work_.recording.nodes) {
    const Status* why = nullptr;
    for (const Ref ref : work_.recording.operands_of(node)) {
      if (ref.kind() == Ref::kResult && lost[ref.index()] != nullptr) why = lost[ref.index()];
      if (ref.kind() == Ref::kInput && is_lost(work_.inputs[ref.index()])) why = &work_.inputs[ref.index()]->error();
    }
    std::fill_n(lost.begin() + node.first_result, node.call->results.size(), why);
  }
  std::erase_if(live, [&](uint32_t i) {
    if (lost[i] != nullptr) work_.results[i]->fail(*lost[i]);
    return lost[i] != nullptr;
  });
}

Status Region::launch_locked(std::optional<Line> read_at) {
  if (empty()) {
    work_.clear();
    return {};
  }
  std::vector<uint32_t> live;
  for (uint32_t i = 0; i < work_.results.size(); ++i) {
    if (work_.results[i] != nullptr && work_.results[i]->references() > 1) live.push_back(i);
  }
  pass_on_errors(live);
  const auto run = [&]() -> Status {
    if (!is_one_program(read_at)) {
      counters().unfused.fetch_add(1, std::memory_order_relaxed);
      TPU_ASSIGN(Device * device, Device::get());
      return launch_one_by_one(*device, work_.recording, live, {work_.lines, work_.words, work_.inputs, work_.results});
    }
    std::vector<uint32_t> given;
    for (uint32_t i = 0; i < work_.inputs.size(); ++i) {
      if (work_.inputs[i]->references() == 1) given.push_back(i);
    }
    if (work_.recording.nodes.size() >= kSplitNodes) {
      const Schedule& schedule = schedule_for(work_.key, work_.recording, live, given);
      if (!schedule.pieces.empty()) {
        TPU_ASSIGN(Device * device, Device::get());
        return runtime::launch(*device, schedule, {work_.lines, work_.words, work_.inputs, work_.results});
      }
    }
    TPU_ASSIGN(const Program* found, compile_locked(live, given));
    if (found == nullptr) return {};
    std::vector<Parameter> parameters;
    for (const uint32_t i : found->inputs) {
      parameters.push_back({work_.inputs[i], std::binary_search(given.begin(), given.end(), i)});
    }
    std::vector<uint32_t> words;
    for (const uint32_t s : found->scalars) {
      const auto* from = &work_.words[found->word_offset[s]];
      words.insert(words.end(), from, from + size_of(work_.recording.scalars[s]) / 4);
    }
    std::vector<Value*> outputs;
    for (const uint32_t i : live) outputs.push_back(work_.results[i]);
    TPU_ASSIGN(Device * device, Device::get());
    return launch(*device, *found, parameters, words, outputs);
  };
  const Status status = run();
  for (const uint32_t i : live) {
    if (!status.ok() && work_.results[i]->region() == this) work_.results[i]->fail(status);
  }
  work_.clear();
  const Watcher* watch = watcher();
  return watch != nullptr && watch->dry ? Status() : status;  // the stream goes on
}

void Region::Work::clear() {
  for (Value* v : results) {
    if (v != nullptr) v->release();
  }
  for (Value* v : inputs) {
    if (v != nullptr) v->release();
  }
  recording.nodes.clear();
  recording.operands.clear();
  recording.num_results = 0;
  recording.inputs.clear();
  recording.scalars.clear();
  lines.clear();
  result_types.clear();
  results.clear();
  inputs.clear();
  input_index.clear();
  words.clear();
  bytes = 0;
  key = {};
}

Status sink(Value& value) {
  // An error is that of the values which were to be made.
  if (value.region() == nullptr) (void)Region::current().cut();
  return ensure_ready(value);
}

Status ensure_ready(Value& value) {
  if (Region* region = value.region()) {
    const Line at = line_of_cut(*region);
    const std::lock_guard lock(region->mutex);
    // Another thread may have cut it while we waited.
    if (value.region() == region) TPU_RETURN_IF_ERROR(region->cut_locked(at));
  }
  return value.error();
}

}  // namespace tpu::runtime
