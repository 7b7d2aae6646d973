// A plan is everything about a call that its signature decides: the nodes to record, the tensors to make, the cells to
// write. It is built once, from PyTorch's meta function and the op table, and replayed on every later call.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "aten/frame.h"
#include "runtime/program.h"

namespace tpu::aten {

// Where an operand of a step, an output or an effect comes from.
struct Source {
  enum Kind : uint8_t { kTensor, kStart, kNumber, kConstant, kStep, kSeed, kOffset } kind;
  DType travels_as = DType::kS32;  // of numbers
  uint32_t index = 0;  // tensor, start, number, constant, or result of the plan's steps; added to the offset
};

struct Step {
  const hlo::Call* call;
  uint32_t first_source;
  uint32_t first_result;
};

struct Output {
  enum Kind : uint8_t { kFresh, kArgument, kUndefined, kConstant } kind = kFresh;
  Source source{Source::kStep};     // kFresh: the storage's value
  const hlo::Type* type = nullptr;  // of that value
  at::ScalarType dtype{};
  bool contiguous = true;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  size_t bytes = 0;
  uint32_t argument = 0;  // kArgument: position on the stack
  int32_t shares = -1;    // kFresh: the return before it whose storage it is over
  c10::IValue constant;
};

struct Effect {
  uint32_t tensor;  // whose cell
  Source source;
};

struct StandAlone;  // stand_alone.h

// An out= tensor of another size than the result.
struct Resize {
  uint32_t tensor;
  std::vector<int64_t> sizes, strides;
};

struct Plan {
  std::vector<uint64_t> words;
  std::vector<Step> steps;
  std::vector<Source> sources;
  std::vector<std::pair<uint64_t, uint64_t>> constants;
  uint32_t num_results = 0;
  std::vector<Output> outputs;   // flat: one per returned value, lists flattened
  std::vector<int32_t> returns;  // per return of the schema: -1 single, else length of a list
  std::vector<Effect> effects;
  std::vector<uint32_t> escaping;  // results that outlive the call, without repeats; set by PlanTable::insert
  std::vector<Resize> resizes;     // not empty: do only this, then read the frame again
  bool by_calls = false;           // not replayable: the calls that the operator is made of are made each time
  bool random = false;
  uint64_t random_count = 0;  // how far the generator moves
  int32_t check = -1;         // result that Debug mode looks at
  const char* check_name = nullptr;
  // Bits of a number for this call: starts, numbers and constants.
  std::pair<uint64_t, uint64_t> bits(const Source& s, const Frame& frame) const {
    if (s.kind == Source::kConstant) return constants[s.index];
    if (s.kind == Source::kNumber) return frame.numbers[s.index].bits(s.travels_as);
    return {s.index == ~0u ? 0 : static_cast<uint64_t>(frame.starts[s.index]), 0};
  }

  // Published once by whoever builds it first: [1] takes the memory of the values that the call replaces, [0] none.
  mutable std::atomic<const StandAlone*> alone[2] = {nullptr, nullptr};
};

// Plans of one overload. Lookups take no lock.
class PlanTable {
 public:
  const Plan* find(uint64_t hash, const Frame& frame) const;
  Plan* find_mutable(uint64_t hash, const Frame& frame) { return const_cast<Plan*>(find(hash, frame)); }
  Plan* insert(uint64_t hash, std::unique_ptr<Plan> plan);

 private:
  struct Slots {
    size_t mask;
    std::unique_ptr<std::atomic<Plan*>[]> plans;
    std::unique_ptr<std::atomic<uint64_t>[]> hashes;
  };
  static std::unique_ptr<Slots> make(size_t size);
  static void place(Slots& slots, uint64_t hash, Plan* plan);
  std::atomic<Slots*> slots_{nullptr};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slots>> kept_;  // old generations stay for readers
  std::vector<std::pair<uint64_t, std::unique_ptr<Plan>>> plans_;
};

// One registered overload of an operator.
struct Overload {
  const ops::Row* row;
  c10::OperatorHandle handle;
  enum Kind : uint8_t { kFunctional, kInPlace, kOut } kind;
  std::vector<ArgSpec> args;  // of this overload's schema
  size_t row_args;            // arguments of the functional schema
  bool each = false;          // the row applied to each element of lists: see foreach.h
  mutable PlanTable plans;
  Overload(const ops::Row* row, c10::OperatorHandle handle, Kind kind);
  Overload(const ops::Row* row, c10::OperatorHandle handle, Kind kind, std::vector<ArgSpec> args, size_t row_args)
      : row(row), handle(std::move(handle)), kind(kind), args(std::move(args)), row_args(row_args) {}
  // Whether a call with these arguments writes argument i.
  bool writes(size_t i, c10::ArrayRef<c10::IValue> arguments) const;
};

// Builds the plan of `frame`. `arguments` as on the stack.
std::unique_ptr<Plan> build_plan(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, const Frame& frame);

}  // namespace tpu::aten
