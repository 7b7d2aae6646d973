// A region is the append-only list of nodes that were recorded and not yet launched; a cut turns it into a program,
// launches it and fills its values. The three eager modes are three policies of when to cut.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/line.h"
#include "runtime/novelty.h"
#include "runtime/recording.h"
#include "runtime/repeats.h"
#include "runtime/value.h"

namespace tpu::runtime {

enum class Mode : uint8_t { kStrict, kDebug, kDefer };

struct Program;

class Region {
 public:
  static constexpr size_t kMaxNodes = 4096;
  static constexpr int64_t kMaxBytes = int64_t{8} << 30;  // of results, as recorded

  // The region of the calling thread. Backward runs on the thread that asked for it (aten/autograd.cc), so it goes on
  // with the same region and mode.
  static Region& current() { return current_ != nullptr ? *current_ : of_new_thread(); }
  // Cuts every region of the process that holds work.
  static Status cut_all();

  Mode mode() const { return mode_; }
  // Cuts what was recorded under the old mode; a new stream begins.
  Status set_mode(Mode mode);

  // Held while nodes are appended or the region is cut.
  std::mutex mutex;

  // Of the region's thread alone. While positive, Strict and Debug mode do not cut: see aten/record.h.
  int holds = 0;

  ~Region() { work_.clear(); }
  Region() = default;
  Region(const Region&) = delete;

  // --- with the mutex held ---
  bool empty() const { return work_.recording.nodes.empty(); }
  // `value` must be of this region or not deferred.
  Ref input(Value& value);
  Ref scalar(DType travels_as, uint64_t low, uint64_t high);
  // Returns the number of the first result.
  uint32_t append(const hlo::Call* call, std::span<const Ref> operands, Line line);
  // The value of a result, made on first request.
  ValuePtr result(uint32_t index);
  const hlo::Type* result_type(uint32_t index) const { return work_.result_types[index]; }
  // Whether the policy of DeferAndFuse asks for a cut by what was recorded: see repeats.h and the caps above.
  bool due() const { return full() || repeats_.suspects() || repeats_.at_boundary(); }
  // Makes the cuts that are due.
  Status cut_due_locked();

  // Launches what is recorded, because somebody outside the stream of nodes asked; values that nobody holds are
  // dropped. An error is also that of each value it should have made. `read_at`: the line of Python that asked.
  Status cut_locked(std::optional<Line> read_at = std::nullopt) {
    repeats_.restart();
    return launch_locked(read_at);
  }
  // For a plan that is launched alone: the program that makes the results `live` (ascending) of what is recorded,
  // without launching it; null where nothing has to run. It may take the memory of the inputs `given` (ascending).
  Result<const Program*> compile_locked(std::span<const uint32_t> live, std::span<const uint32_t> given);
  Value* input_value(uint32_t index) const { return work_.inputs[index]; }
  uint32_t num_inputs() const { return static_cast<uint32_t>(work_.inputs.size()); }
  // Forgets what is recorded.
  void drop_locked() { work_.clear(); }
  // --- end ---
  Status cut();

 private:
  friend class Scratch;
  static constinit inline thread_local Region* current_ = nullptr;
  static Region& of_new_thread();
  struct Work {
    Recording recording;
    std::vector<Line> lines;  // one per node
    std::vector<const hlo::Type*> result_types;
    std::vector<Value*> results;        // one reference each, or null where nobody asked
    std::vector<Value*> inputs;         // one reference each
    std::vector<uint32_t> input_index;  // open addressing by pointer, empty while there are few
    std::vector<uint32_t> words;        // of scalars
    int64_t bytes = 0;
    Key key;
    void clear();
  };
  bool full() const { return work_.recording.nodes.size() >= kMaxNodes || work_.bytes >= kMaxBytes; }
  Status launch_locked(std::optional<Line> read_at = std::nullopt);
  // Whether it is launched as a whole: see novelty.h.
  bool is_one_program(std::optional<Line> read_at);
  // Gives the results that stand on a lost input its error, and takes them out of `live`.
  void pass_on_errors(std::vector<uint32_t>& live);
  // Launches the first `nodes` nodes; the others stay.
  Status launch_first(size_t nodes);
  // Whether the last period of nodes goes on from the one before it, rather than from inputs of its own.
  bool is_loop(size_t period) const;
  // The node in [first, last] before which the region is best cut: the fewest bytes of results are used beyond it.
  size_t narrowest(size_t first, size_t last) const;
  // Decides on a period that repeats_ suspects.
  void consider(Repeats::Candidate& found);
  uint32_t push(const hlo::Call* call, std::span<const Ref> operands, Line line);
  Ref scalar(DType travels_as, std::span<const uint32_t> words);
  // Appends nodes of `from`, whose earlier results are ready or in `moved`, by their new numbers.
  void replay(Work& from, size_t begin, size_t end);

  std::atomic<Mode> mode_{Mode::kStrict};
  Work work_;
  Repeats repeats_;  // of the thread's stream, across cuts
  Novelty novelty_;  // of its regions
};

// What every recorded node goes through.
inline uint32_t Region::append(const hlo::Call* call, std::span<const Ref> operands, Line line) {
  if (mode_.load(std::memory_order_relaxed) == Mode::kDefer) {
    repeats_.add(mix(call->structure_key, call->dimensions_key));
  }
  return push(call, operands, line);
}

inline uint32_t Region::push(const hlo::Call* call, std::span<const Ref> operands, Line line) {
  for (const hlo::Type* type : call->results) {
    work_.result_types.push_back(type);
    work_.results.push_back(nullptr);
    work_.bytes += type->bytes();
  }
  work_.lines.push_back(line);
  return runtime::append(work_.recording, work_.key, call, operands);
}

inline ValuePtr Region::result(uint32_t index) {
  Value*& slot = work_.results[index];
  if (slot == nullptr) {
    slot = new Value(work_.result_types[index]);
    slot->defer(this, index);
    slot->line = work_.lines.back();  // asked for right after it was recorded
  }
  return ValuePtr::share(slot);
}

// While one lives, the calling thread records into a region of its own, in Strict mode but without cuts. It is never
// launched: values of it that outlive this are lost.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;

 private:
  Region region_;
  Region* const outer_;
};

// Mode that new threads start with; from the environment unless set.
Mode default_mode();
void set_default_mode(Mode mode);

// Called once in each thread that takes a region, before it records. Set by aten/.
void set_thread_hook(void (*hook)());

// Fills `value`: cuts the region that promises it. Its error if it is lost.
Status ensure_ready(Value& value);

// The same, where the program asks for the elements. That ends a step even where they are there already (the loss,
// after a cut between layers): the region of this thread is cut in any case, so that each step is cut alike.
Status sink(Value& value);

}  // namespace tpu::runtime
