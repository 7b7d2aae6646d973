#include "aten/engine.h"

#include <ATen/native/Resize.h>

#include "aten/dtype.h"
#include "aten/errors.h"
#include "aten/generator.h"
#include "aten/recorder.h"
#include "runtime/launch.h"

namespace tpu::aten {
namespace {

using runtime::Mode;
using runtime::Ref;
using runtime::Region;
using runtime::Value;
using runtime::ValuePtr;

thread_local int holds = 0;

// What a call needs beside its frame while it runs.
struct Run {
  const Plan& plan;
  const Frame& frame;
  uint64_t seed = 0, offset = 0;

  std::pair<uint64_t, uint64_t> bits(const Source& s) const {
    switch (s.kind) {
      case Source::kSeed: return {seed, 0};
      case Source::kOffset: return {offset + s.index, 0};
      default: return plan.bits(s, frame);
    }
  }
};

// Appends the plan's nodes to a region whose mutex is held. `results` receives a Ref per plan result.
void record(const Run& run, Region& region, runtime::Line line, c10::SmallVectorImpl<Ref>& results) {
  const Plan& plan = run.plan;
  results.resize(plan.num_results);
  c10::SmallVector<Ref, 16> operands;
  for (const Step& step : plan.steps) {
    operands.clear();
    for (size_t k = 0; k < step.call->operands.size(); ++k) {
      const Source& s = plan.sources[step.first_source + k];
      if (s.kind == Source::kStep) {
        operands.push_back(results[s.index]);
      } else if (s.kind == Source::kTensor) {
        operands.push_back(region.input(*run.frame.tensors[s.index].cell->value));
      } else {
        const auto [low, high] = run.bits(s);
        operands.push_back(region.scalar(s.travels_as, low, high));
      }
    }
    const uint32_t first = region.append(step.call, operands, line);
    for (uint32_t r = 0; r < step.call->results.size(); ++r)
      results[step.first_result + r] = Ref(Ref::kResult, first + r);
  }
}

// Values that the plan hands out, by plan result.
using Values = c10::SmallVector<ValuePtr, 8>;

bool replaces(const Plan& plan, const Frame& frame, const Cell* cell) {
  return std::any_of(plan.effects.begin(), plan.effects.end(),
                     [&](const Effect& e) { return frame.tensors[e.tensor].cell == cell; });
}

// Finds or compiles the program of a plan that is launched alone, without launching it.
const StandAlone* stand_alone(const Run& run, bool gives) {
  const runtime::Line line = runtime::current_line();
  Region scratch;
  const std::lock_guard lock(scratch.mutex);
  c10::SmallVector<Ref, 16> results;
  record(run, scratch, line, results);
  auto alone = std::make_unique<StandAlone>();
  std::vector<uint32_t> live;
  for (const uint32_t r : run.plan.escaping) {
    alone->outputs.push_back(r);
    live.push_back(results[r].index());
  }
  // Outputs go in the order of the region's results.
  std::vector<size_t> order(live.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return live[a] < live[b]; });
  std::vector<uint32_t> sorted, outputs;
  for (const size_t i : order) {
    sorted.push_back(live[i]);
    outputs.push_back(alone->outputs[i]);
  }
  alone->outputs = std::move(outputs);
  const auto tensor_of = [&](uint32_t input) {
    uint32_t tensor = 0;
    while (run.frame.tensors[tensor].cell->value.get() != scratch.input_value(input)) ++tensor;
    return tensor;
  };
  std::vector<uint32_t> given;
  for (uint32_t i = 0; gives && i < scratch.num_inputs(); ++i) {
    if (replaces(run.plan, run.frame, run.frame.tensors[tensor_of(i)].cell)) given.push_back(i);
  }
  const runtime::Program* program = check(scratch.compile_locked(sorted, given));
  alone->program = program;
  if (program != nullptr) {
    for (const uint32_t input : program->inputs) alone->parameters.push_back(tensor_of(input));
    std::vector<Source> numbers;
    for (const Step& step : run.plan.steps) {
      for (size_t k = 0; k < step.call->operands.size(); ++k) {
        const Source& s = run.plan.sources[step.first_source + k];
        if (s.kind != Source::kStep && s.kind != Source::kTensor) numbers.push_back(s);
      }
    }
    for (const uint32_t i : program->scalars) alone->words.push_back(numbers[i]);
  }
  scratch.drop_locked();
  // Another thread may have been faster; the loser's is dropped.
  const StandAlone* expected = nullptr;
  if (run.plan.alone[gives].compare_exchange_strong(expected, alone.get())) return alone.release();
  return expected;
}

// Launches the plan on its own. Fills values[r] for each result that escapes.
void launch_alone(const Run& run, Values& values) {
  // A value that is replaced, and that nothing else holds, gives its memory to the launch.
  const auto last = [&](const TensorArg& t) { return t.cell->value && t.cell->value->references() == 1; };
  bool gives = false;
  // After a failed check the old value must still be there.
  const bool may_give = run.plan.check < 0;
  for (const Effect& e : run.plan.effects) gives = gives || (may_give && last(run.frame.tensors[e.tensor]));
  const StandAlone* alone = run.plan.alone[gives].load(std::memory_order_acquire);
  if (alone == nullptr) alone = stand_alone(run, gives);
  if (alone->program == nullptr) return;
  c10::SmallVector<runtime::Parameter, 8> parameters;
  for (size_t i = 0; i < alone->parameters.size(); ++i) {
    const TensorArg& t = run.frame.tensors[alone->parameters[i]];
    parameters.push_back({t.cell->value.get(), alone->program->donates[i] && last(t)});
  }
  c10::SmallVector<uint32_t, 16> words;
  for (const Source& s : alone->words) {
    const auto [low, high] = run.bits(s);
    const int64_t n = size_of(s.travels_as) / 4;
    const uint32_t parts[] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                              static_cast<uint32_t>(high >> 32)};
    words.append(parts, parts + n);
  }
  c10::SmallVector<Value*, 8> outputs;
  const runtime::Line line = runtime::current_line();
  for (size_t i = 0; i < alone->outputs.size(); ++i) {
    values[alone->outputs[i]] = ValuePtr::make(alone->program->output_types[i]);
    values[alone->outputs[i]]->line = line;
    outputs.push_back(values[alone->outputs[i]].get());
  }
  check(runtime::launch(*check(runtime::Device::get()), *alone->program, {parameters.data(), parameters.size()},
                        {words.data(), words.size()}, {outputs.data(), outputs.size()}));
}

ValuePtr value_of(const Source& s, const Run& run, const Values& values) {
  return s.kind == Source::kTensor ? run.frame.tensors[s.index].cell->value : values[s.index];
}

// Debug mode: the launch has ended without an error, and no index was out of bounds.
void wait_and_check(const Plan& plan, const Values& values) {
  runtime::Device& device = *check(runtime::Device::get());
  for (const ValuePtr& v : values) {
    if (v && v->buffer()) check(check(v->buffer().ready()).await());
  }
  if (plan.check < 0) return;
  int64_t found[3];
  check(device.download(*values[static_cast<size_t>(plan.check)], found));
  TORCH_CHECK_INDEX(found[0] == 0, plan.check_name, ": index ", found[1], " is out of bounds for dimension with size ",
                    found[2]);
}

void apply(const Run& run, const Values& values, torch::jit::Stack* stack, size_t num_arguments) {
  const Plan& plan = run.plan;
  for (const Effect& e : plan.effects) {
    Cell& cell = *run.frame.tensors[e.tensor].cell;
    cell.value = value_of(e.source, run, values);
    cell.type = cell.value->type;
  }
  c10::SmallVector<c10::IValue, 4> returns;
  size_t next = 0;
  const auto take = [&]() -> c10::IValue {
    const Output& out = plan.outputs[next++];
    switch (out.kind) {
      case Output::kArgument: return (*stack)[stack->size() - num_arguments + out.argument];
      case Output::kUndefined: return at::Tensor();
      case Output::kConstant: return out.constant;
      case Output::kFresh: break;
    }
    ValuePtr value = value_of(out.source, run, values);
    if (out.contiguous) return make_tensor(std::move(value), out.type, out.dtype);
    at::Tensor t = make_tensor(std::move(value), out.type, out.dtype, out.sizes, out.strides, out.bytes);
    if (out.offset != 0) t.unsafeGetTensorImpl()->set_storage_offset(out.offset);
    return t;
  };
  for (const int32_t length : plan.returns) {
    if (length < 0) {
      returns.push_back(take());
    } else {
      c10::List<at::Tensor> list;
      for (int32_t i = 0; i < length; ++i) list.push_back(take().toTensor());
      returns.push_back(std::move(list));
    }
  }
  torch::jit::drop(*stack, num_arguments);
  for (c10::IValue& v : returns) stack->push_back(std::move(v));
}

// PyTorch's rules on memory that is written: the meta functions do not see real addresses.
void check_overlap(const at::Tensor& target, const c10::IValue& v) {
  if (!v.isTensor()) return;
  const at::Tensor& other = v.toTensor();
  if (!other.defined() || other.unsafeGetTensorImpl() == target.unsafeGetTensorImpl() || !other.has_storage() ||
      !other.storage().is_alias_of(target.storage())) {
    return;
  }
  at::assert_no_partial_overlap(target, other);
}

void check_overlap(const Overload& overload, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!overload.args[i].written) continue;
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (k == i) continue;
      if (arguments[i].isTensor()) {
        check_overlap(arguments[i].toTensor(), arguments[k]);
      } else if (overload.each && arguments[i].isTensorList()) {
        const auto targets = arguments[i].toListRef();
        const bool list = overload.args[k].list;
        for (size_t n = 0; n < targets.size(); ++n) {
          check_overlap(targets[n].toTensor(), list ? arguments[k].toListRef()[n] : arguments[k]);
        }
      }
    }
  }
}

void run_once(const Overload& overload, torch::jit::Stack* stack, bool* again) {
  const size_t n = overload.args.size();
  const c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, n);
  Frame frame;
  read_frame(overload, arguments, frame);
  const uint64_t hash = frame.hash();
  const Plan* plan = overload.plans.find(hash, frame);
  if (plan == nullptr) {
    plan = overload.plans.insert(hash, build_plan(overload, arguments, frame));
    runtime::counters().plans.fetch_add(1, std::memory_order_relaxed);
  }
  if (!plan->resizes.empty()) {
    for (const auto& [tensor, sizes] : plan->resizes) {
      at::native::resize_output(
          at::Tensor(c10::intrusive_ptr<at::TensorImpl>::reclaim_copy(frame.tensors[tensor].impl)), sizes);
    }
    *again = true;
    return;
  }
  if (overload.kind != Overload::kFunctional) check_overlap(overload, arguments);
  run_plan(*plan, frame, stack, n);
}

}  // namespace

void run_plan(const Plan& plan, const Frame& frame, torch::jit::Stack* stack, size_t num_arguments) {
  Run run{plan, frame};
  if (plan.random) std::tie(run.seed, run.offset) = draw(frame.generator, plan.random_count);
  runtime::counters().ops_recorded.fetch_add(1, std::memory_order_relaxed);

  Region& region = Region::current();
  for (const TensorArg& t : frame.tensors) {
    if (!t.cell->value) continue;
    const Region* other = t.cell->value->region();
    if (other != nullptr && other != &region) check(runtime::ensure_ready(*t.cell->value));
  }
  Values values;
  values.resize(plan.num_results);
  bool due = false;
  if (region.mode() != Mode::kDefer && holds == 0) {
    launch_alone(run, values);
    if (region.mode() == Mode::kDebug) wait_and_check(plan, values);
  } else {
    const runtime::Line line = runtime::current_line();
    const std::lock_guard lock(region.mutex);
    c10::SmallVector<Ref, 16> results;
    record(run, region, line, results);
    for (const uint32_t r : plan.escaping) values[r] = region.result(results[r].index());
    due = region.due();
  }
  if (Recorder* recorder = Recorder::active()) recorder->note(plan, frame, values, run.offset);
  apply(run, values, stack, num_arguments);
  if (due && holds == 0) {  // after apply(): values that the call replaced are dead
    const std::lock_guard lock(region.mutex);
    check(region.cut_due_locked());
  }
}

void run(const Overload& overload, torch::jit::Stack* stack) {
  bool again = false;
  run_once(overload, stack, &again);
  if (again) {
    again = false;
    run_once(overload, stack, &again);
    TORCH_INTERNAL_ASSERT(!again, overload.handle.schema(), ": out= tensors did not take their sizes");
  }
}

namespace {

hlo::Values emit_resized(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands) {
  const hlo::Type& want = *call.results[0];
  hlo::Value x = b.flatten(operands[0]);
  const int64_t from = x.type->bytes(), to = want.bytes();
  if (want.dtype != x.dtype()) {  // bytes that are no whole element
    if (x.dtype() == DType::kBool) x = b.convert(x, DType::kU8);
    x = b.flatten(b.bitcast(x, DType::kU8));
  }
  const int64_t item = size_of(x.dtype());
  if (to < from) {
    x = b.slice_dim(x, 0, 0, to / item);
  } else {
    x = b.pad(x, b.scalar(0, x.dtype()), {0}, {(to - from) / item});
  }
  return {b.reshape(x, want.dims)};
}

// Records one call on one value, outside any plan.
ValuePtr record_one(hlo::Call call, const ValuePtr& operand, std::span<const int64_t> starts = {}, DType start = {}) {
  Region& region = Region::current();
  const Region* other = operand->region();
  if (other != nullptr && other != &region) check(runtime::ensure_ready(*operand));
  const hlo::Call* interned = hlo::intern(std::move(call));
  const runtime::Line line = runtime::current_line();
  const std::lock_guard lock(region.mutex);
  std::vector<Ref> refs{region.input(*operand)};
  for (const int64_t s : starts) refs.push_back(region.scalar(start, static_cast<uint64_t>(s), 0));
  if (Recorder* recorder = Recorder::active()) recorder->give_up();
  ValuePtr value = region.result(region.append(interned, refs, line));
  if (region.mode() != Mode::kDefer && holds == 0) check(region.cut_locked());
  return value;
}

hlo::Values emit_undefined(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value>) {
  return {b.zeros(*call.results[0])};
}

}  // namespace

std::vector<at::Tensor> record(hlo::Call call, const std::vector<at::Tensor>& operands) {
  Frame frame;
  for (const at::Tensor& t : operands) {
    read_tensor(*t.unsafeGetTensorImpl(), frame);
    call.operands.push_back(hlo::intern({to_dtype(t.scalar_type()), t.sizes().vec()}));
  }
  Region& region = Region::current();
  for (const TensorArg& t : frame.tensors) {
    const Region* other = t.cell->value ? t.cell->value->region() : nullptr;
    if (other != nullptr && other != &region) check(runtime::ensure_ready(*t.cell->value));
  }
  const hlo::Call* interned = hlo::intern(std::move(call));
  const runtime::Line line = runtime::current_line();
  const std::lock_guard lock(region.mutex);
  if (Recorder* recorder = Recorder::active()) recorder->give_up();
  const auto append = [&](const hlo::Call* what, std::span<const Ref> refs) {
    return Ref(Ref::kResult, region.append(what, refs, line));
  };
  std::vector<Ref> refs;
  for (const TensorArg& t : frame.tensors) {
    if (!t.cell->value) {
      hlo::Call zeros;
      zeros.name = "view.undefined";
      zeros.emit = emit_undefined;
      zeros.results = {t.cell->type};
      refs.push_back(append(hlo::intern(std::move(zeros)), {}));
    } else {
      refs.push_back(region.input(*t.cell->value));
    }
    if (t.view == nullptr) continue;
    std::vector<Ref> parts{refs.back()};
    for (int i = 0; i < t.view->num_starts; ++i) {
      const int64_t start = frame.starts[t.first_start + static_cast<uint32_t>(i)];
      parts.push_back(region.scalar(t.view->start_dtype, static_cast<uint64_t>(start), 0));
    }
    refs.back() = append(t.view->read, parts);
  }
  const uint32_t result = region.append(interned, refs, line);
  std::vector<at::Tensor> tensors;
  for (uint32_t r = 0; r < interned->results.size(); ++r) {
    const hlo::Type* type = interned->results[r];
    tensors.push_back(make_tensor(region.result(result + r), type, to_scalar_type(type->dtype)));
  }
  if (region.mode() != Mode::kDefer && holds == 0) check(region.cut_locked());
  return tensors;
}

ValuePtr resized(const ValuePtr& value, const hlo::Type* type) {
  hlo::Call call;
  call.name = "storage.resize";
  call.emit = emit_resized;
  call.operands = {value->type};
  call.results = {type};
  return record_one(std::move(call), value);
}

ValuePtr ready_value(const at::TensorImpl& impl) {
  Frame frame;
  read_tensor(const_cast<at::TensorImpl&>(impl), frame);
  const TensorArg& t = frame.tensors[0];
  ValuePtr value = t.cell->value;
  if (value && t.view != nullptr) {
    if (t.view->identity) {
      // The same elements in the same order: only the type differs.
    } else {
      value = record_one(*t.view->read, value, {frame.starts.data(), frame.starts.size()}, t.view->start_dtype);
    }
  }
  if (value) materialize(*value);
  return value;
}

void materialize(Value& value) {
  if (Recorder* recorder = Recorder::active()) recorder->give_up();
  if (value.region() != nullptr) runtime::counters().materializations.fetch_add(1, std::memory_order_relaxed);
  check(runtime::ensure_ready(value));
}

Hold::Hold() { ++holds; }
Hold::~Hold() { --holds; }

}  // namespace tpu::aten
