#include "runtime/made.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"
#include "runtime/device.h"

namespace tpu::runtime {
namespace {

constexpr size_t kCompared = 16;  // latest programs of a family that a new one is compared with

using Family = std::vector<const Program*>;  // latest last

struct Log {
  std::mutex mutex;
  int64_t count = 0;
  std::deque<Made> entries;
  std::unordered_map<uint64_t, Family> same_ops;    // by lines and operators
  std::unordered_map<uint64_t, Family> same_start;  // by first line and first operator
  struct Group {
    int64_t versions = 1, ns = 0;
    int64_t storm = -1;  // its place in `storms`
  };
  std::unordered_map<uint64_t, Group> groups;  // by what a version differs in
  std::vector<Storm> storms;
  std::atomic<void (*)(bool)> hook{nullptr};
};
Log& log() {
  static auto* const log = new Log;
  return *log;
}

// A fork may have left the lock taken by a thread that is not in this process. Nothing is made here then.
std::unique_lock<std::mutex> locked(Log& l) {
  if (!Device::forked()) return std::unique_lock(l.mutex);
  return {l.mutex, std::try_to_lock};
}

uint64_t fold(uint64_t key, Line line) {
  return mix(mix(key, reinterpret_cast<uintptr_t>(line.code)), static_cast<uint64_t>(line.instruction));
}

std::string_view first_operator(const Recording& recording) {
  for (const Node& node : recording.nodes) {
    if (!is_view(*node.call)) return node.call->name;
  }
  return recording.nodes.empty() ? "" : recording.nodes.front().call->name;
}

struct Families {
  uint64_t ops, start;
};
Families families_of(const Made& made) {
  const Recording& recording = made.program->recording;
  Families f{fold(fold(0, made.lines.first()), made.lines.last()), fold(1, made.lines.first())};
  for (const Node& node : recording.nodes) f.ops = mix(f.ops, hash_bytes(node.call->name));
  f.start = mix(f.start, hash_bytes(first_operator(recording)));
  return f;
}

// Fills in what of the family is most like it: of the fewest changes, the latest.
void find_nearest(Made& made, const Family& family) {
  const auto cost = [](const Difference& d) {
    size_t sum = d.why == Why::kStructure ? 100 : 0;
    for (const Change& c : d.changes) sum += c.dim < 0 ? 8 : 1;  // another rank or dtype is far away
    return sum;
  };
  constexpr size_t kLeast = 1;  // equal programs are not made twice
  for (auto at = family.rbegin(); at != family.rend(); ++at) {
    if (made.before != nullptr && cost(made.difference) <= kLeast) return;
    Difference difference = compare(**at, *made.program);
    if (made.before != nullptr && cost(made.difference) <= cost(difference)) continue;
    made.before = *at;
    made.difference = std::move(difference);
  }
}

void remember(Family& family, const Program* program) {
  if (family.size() == kCompared) family.erase(family.begin());
  family.push_back(program);
}

// What versions of one storm have in common; 0: such a compile counts for none.
uint64_t group_of(const Made& made, const Families& families) {
  const Difference& d = made.difference;
  uint64_t key = static_cast<uint64_t>(d.why);
  switch (d.why) {
    case Why::kFirst:
    case Why::kDonation: return 0;
    case Why::kDropped: return mix(key, reinterpret_cast<uintptr_t>(made.program));
    case Why::kStructure:  // a line has a program of its own for each operator where they are not fused
      return made.program->recording.nodes.size() < kManyNodes ? 0 : mix(key, families.start);
    default: break;
  }
  key = mix(key, families.ops);
  const auto fold_in = [&](int64_t part) { key = mix(key, static_cast<uint64_t>(part)); };
  for (const Change& c : d.changes) {
    for (const auto part : {static_cast<int64_t>(c.place), int64_t{c.node}, int64_t{c.index}, int64_t{c.dim}})
      fold_in(part);
    if (c.dim < 0) continue;
    // The sizes that stay: those of a network's layers differ here and there, those of its data in one place.
    const hlo::Call& call = *made.program->recording.nodes[c.node].call;
    const hlo::Type& type = *(c.place == Change::kOperand ? call.operands : call.results)[static_cast<size_t>(c.index)];
    for (size_t i = 0; i < type.dims.size(); ++i) {
      const bool stays = std::none_of(d.changes.begin(), d.changes.end(), [&](const Change& other) {
        return other.place == c.place && other.node == c.node && other.index == c.index &&
               other.dim == static_cast<int32_t>(i);
      });
      fold_in(stays ? type.dims[i] : -1);
    }
  }
  return key;
}

int64_t storm_at(const Made& made) {
  if (made.difference.why == Why::kDropped) return kStormOfMany;
  if (made.difference.why == Why::kStructure) return kStormOfOne;
  return made.program->recording.nodes.size() < kManyNodes ? kStormOfOne : kStormOfMany;
}

// Whether it made a storm.
bool count(Log& l, Made& made, uint64_t key) {
  if (key == 0 || made.from != cache::Tier::kCompiled) return false;
  Log::Group& group = l.groups[key];
  made.versions = ++group.versions;
  group.ns += made.ns;
  const bool begins = group.storm < 0 && group.versions > storm_at(made);
  if (begins) {
    group.storm = static_cast<int64_t>(l.storms.size());
    l.storms.emplace_back();
  }
  if (group.storm >= 0) l.storms[static_cast<size_t>(group.storm)] = {group.versions, group.ns, made};
  return begins;
}

}  // namespace

Lines::Lines(std::span<const Line> lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (!runs_.empty() && runs_.back().line.code == line.code && runs_.back().line.instruction == line.instruction)
      continue;
    runs_.push_back({static_cast<uint32_t>(i), line});
  }
}

Line Lines::at(size_t node) const {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), node, [](size_t n, const Run& run) { return n < run.node; });
  return after == runs_.begin() ? Line{} : std::prev(after)->line;
}

void note_made(Made made) {
  Log& l = log();
  made.thread = syscall(SYS_gettid);
  bool storm = false;
  {
    const std::lock_guard lock(l.mutex);
    made.number = l.count++;
    if (made.again) {
      const auto was =
          std::find_if(l.entries.rbegin(), l.entries.rend(), [&](const Made& m) { return m.program == made.program; });
      if (was != l.entries.rend()) made.lines = was->lines;
      made.before = made.program;
      made.difference = compare(*made.before, *made.program);
    }
    const Families families = families_of(made);
    if (!made.again) {
      Family &ops = l.same_ops[families.ops], &start = l.same_start[families.start];
      find_nearest(made, ops.empty() ? start : ops);
      remember(ops, made.program);
      remember(start, made.program);
    }
    storm = count(l, made, group_of(made, families));
    if (l.entries.size() == kMadeKept) l.entries.pop_front();
    l.entries.push_back(std::move(made));
  }
  if (const auto hook = l.hook.load()) hook(storm);
}

std::vector<Made> made_since(int64_t number) {
  Log& l = log();
  const auto lock = locked(l);
  if (!lock) return {};
  const int64_t oldest = l.count - static_cast<int64_t>(l.entries.size());
  const int64_t skipped = std::clamp<int64_t>(number - oldest, 0, static_cast<int64_t>(l.entries.size()));
  return {l.entries.begin() + skipped, l.entries.end()};
}

int64_t made_count() {
  Log& l = log();
  const auto lock = locked(l);
  return lock ? l.count : 0;
}

std::vector<Storm> storms() {
  Log& l = log();
  const auto lock = locked(l);
  return lock ? l.storms : std::vector<Storm>{};
}

size_t storm_count() {
  Log& l = log();
  const auto lock = locked(l);
  return lock ? l.storms.size() : 0;
}

void set_made_hook(void (*hook)(bool storm)) { log().hook.store(hook); }

}  // namespace tpu::runtime
