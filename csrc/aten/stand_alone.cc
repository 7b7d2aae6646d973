#include "aten/stand_alone.h"

#include <map>
#include <numeric>
#include <set>

#include "aten/errors.h"
#include "runtime/launch.h"

namespace tpu::aten {
namespace {

using runtime::Ref;
using runtime::Region;
using runtime::Value;
using runtime::ValuePtr;

using Steps = std::vector<const Step*>;

// Steps that depend on each other, in order: one part for each tensor of a foreach operator.
std::vector<Steps> independent_parts(const Plan& plan) {
  std::vector<size_t> parent(plan.steps.size()), maker(plan.num_results);
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    for (size_t r = 0; r < step.call->results.size(); ++r) maker[step.first_result + r] = i;
    for (size_t k = 0; k < step.call->operands.size(); ++k) {
      const Source& s = plan.sources[step.first_source + k];
      if (s.kind == Source::kStep) parent[root(maker[s.index])] = root(i);
    }
  }
  std::map<size_t, size_t> number;
  std::vector<Steps> parts;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const auto [at, is_new] = number.emplace(root(i), parts.size());
    if (is_new) parts.emplace_back();
    parts[at->second].push_back(&plan.steps[i]);
  }
  return parts;
}

// Each tensor of a long list costs the compiler a kernel, equal ones too. Where most are of the same few kinds, each is
// launched by itself and each kind compiled once: 53 parameters of a small GPT are 9 programs instead of one of 53
// parts.
std::vector<Steps> parts_to_launch(const Plan& plan) {
  constexpr size_t kMany = 8;
  std::vector<Steps> parts = independent_parts(plan);
  std::map<std::vector<const hlo::Call*>, int> kinds;
  for (const Steps& part : parts) {
    std::vector<const hlo::Call*> calls;
    for (const Step* step : part) calls.push_back(step->call);
    ++kinds[std::move(calls)];
  }
  if (parts.size() >= kMany && kinds.size() * 2 <= parts.size()) return parts;
  Steps all;
  for (const Step& step : plan.steps) all.push_back(&step);
  return {std::move(all)};
}

// Finds or compiles the program of some steps, without launching it. Null program: nothing has to run.
StandAlone::Launch prepare(const Run& run, const Steps& steps, const std::set<const Value*>& to_give) {
  const Plan& plan = run.plan;
  const runtime::Line line = runtime::current_line();
  Region scratch;
  const std::lock_guard lock(scratch.mutex);
  c10::SmallVector<Ref, 16> results;
  results.resize(plan.num_results);
  std::vector<bool> made(plan.num_results);
  for (const Step* step : steps) {
    record_step(run, *step, scratch, line, results);
    std::fill_n(made.begin() + step->first_result, step->call->results.size(), true);
  }
  StandAlone::Launch launch{};
  for (const uint32_t r : plan.escaping) {
    if (made[r]) launch.outputs.push_back(r);
  }
  // Outputs go in the order of the region's results.
  const auto index = [&](uint32_t r) { return results[r].index(); };
  std::sort(launch.outputs.begin(), launch.outputs.end(), [&](uint32_t a, uint32_t b) { return index(a) < index(b); });
  std::vector<uint32_t> live;
  for (const uint32_t r : launch.outputs) live.push_back(index(r));
  const auto tensor_of = [&](uint32_t input) {
    uint32_t tensor = 0;
    while (run.frame.tensors[tensor].cell->value.get() != scratch.input_value(input)) ++tensor;
    return tensor;
  };
  std::vector<uint32_t> given;
  for (uint32_t i = 0; i < scratch.num_inputs(); ++i) {
    if (to_give.contains(scratch.input_value(i))) given.push_back(i);
  }
  launch.program = check(scratch.compile_locked(live, given));
  if (launch.program != nullptr) {
    for (const uint32_t input : launch.program->inputs) launch.parameters.push_back(tensor_of(input));
    std::vector<Source> numbers;
    for (const Step* step : steps) {
      for (size_t k = 0; k < step->call->operands.size(); ++k) {
        const Source& s = plan.sources[step->first_source + k];
        if (s.kind != Source::kStep && s.kind != Source::kTensor) numbers.push_back(s);
      }
    }
    for (const uint32_t i : launch.program->scalars) launch.words.push_back(numbers[i]);
  }
  scratch.drop_locked();
  return launch;
}

// Values that the call replaces, and that one part alone reads: a later one would find the memory gone.
std::set<const Value*> replaced(const Run& run, const std::vector<Steps>& parts) {
  std::map<const Value*, int> readers;
  for (const Steps& steps : parts) {
    std::set<const Value*> read;
    for (const Step* step : steps) {
      for (size_t k = 0; k < step->call->operands.size(); ++k) {
        const Source& s = run.plan.sources[step->first_source + k];
        if (s.kind == Source::kTensor) read.insert(run.frame.tensors[s.index].cell->value.get());
      }
    }
    for (const Value* value : read) ++readers[value];
  }
  std::set<const Value*> found;
  for (const Effect& e : run.plan.effects) {
    const Value* value = run.frame.tensors[e.tensor].cell->value.get();
    if (readers[value] == 1) found.insert(value);
  }
  return found;
}

const StandAlone* stand_alone(const Run& run, bool gives) {
  auto alone = std::make_unique<StandAlone>();
  const std::vector<Steps> parts = parts_to_launch(run.plan);
  const std::set<const Value*> to_give = gives ? replaced(run, parts) : std::set<const Value*>();
  for (const Steps& steps : parts) {
    StandAlone::Launch launch = prepare(run, steps, to_give);
    if (launch.program != nullptr) alone->launches.push_back(std::move(launch));
  }
  // Another thread may have been faster; the loser's is dropped.
  const StandAlone* expected = nullptr;
  if (run.plan.alone[gives].compare_exchange_strong(expected, alone.get())) return alone.release();
  return expected;
}

// A value that nothing else holds.
bool last(const TensorArg& t) { return t.cell->value && t.cell->value->references() == 1; }

Status launch_one(const Run& run, const StandAlone::Launch& it, Values& values) {
  c10::SmallVector<runtime::Parameter, 8> parameters;
  for (size_t i = 0; i < it.parameters.size(); ++i) {
    const TensorArg& t = run.frame.tensors[it.parameters[i]];
    parameters.push_back({t.cell->value.get(), it.program->donates[i] && last(t)});
  }
  c10::SmallVector<uint32_t, 16> words;
  for (const Source& s : it.words) {
    const auto [low, high] = run.bits(s);
    const runtime::ScalarWords of_it(s.travels_as, low, high);
    words.append(of_it.span().begin(), of_it.span().end());
  }
  c10::SmallVector<ValuePtr, 8> made;
  c10::SmallVector<Value*, 8> outputs;
  const runtime::Line line = runtime::current_line();
  for (const hlo::Type* type : it.program->output_types) {
    made.push_back(ValuePtr::make(type));
    made.back()->line = line;
    outputs.push_back(made.back().get());
  }
  TPU_ASSIGN(runtime::Device * device, runtime::Device::get());
  TPU_RETURN_IF_ERROR(runtime::launch(*device, *it.program, {parameters.data(), parameters.size()},
                                      {words.data(), words.size()}, {outputs.data(), outputs.size()}));
  for (size_t i = 0; i < made.size(); ++i) values[it.outputs[i]] = std::move(made[i]);
  return {};
}

}  // namespace

Status launch_alone(const Run& run, Values& values) {
  // A value that is replaced gives its memory to the launch; but after a failed check the old one must still be there.
  const bool gives = run.plan.check < 0 && std::any_of(
                                               run.plan.effects.begin(), run.plan.effects.end(),
                                               [&](auto& e) { return last(run.frame.tensors[e.tensor]); });
  const StandAlone* alone = run.plan.alone[gives].load(std::memory_order_acquire);
  if (alone == nullptr) alone = stand_alone(run, gives);
  for (const StandAlone::Launch& it : alone->launches) TPU_RETURN_IF_ERROR(launch_one(run, it, values));
  return {};
}

}  // namespace tpu::aten
