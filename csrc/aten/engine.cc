#include "aten/engine.h"

#include <ATen/native/Resize.h>

#include "aten/dtype.h"
#include "aten/errors.h"
#include "aten/generator.h"
#include "aten/meta.h"
#include "aten/plan_run.h"
#include "aten/record.h"
#include "aten/recorder.h"
#include "aten/stand_alone.h"

namespace tpu::aten {
namespace {

using runtime::Mode;
using runtime::Ref;
using runtime::Region;
using runtime::ValuePtr;

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

// A result that is missing belongs to a launch that failed.
void apply_effects(const Run& run, const Values& values) {
  for (const Effect& e : run.plan.effects) {
    ValuePtr value = value_of(e.source, run, values);
    if (!value) continue;
    run.frame.tensors[e.tensor].cell->value = std::move(value);
  }
}

void apply(const Run& run, const Values& values, Exchange& call) {
  const Plan& plan = run.plan;
  apply_effects(run, values);
  Exchange::Returns& returns = call.returns;
  size_t next = 0;
  const auto take = [&]() -> c10::IValue {
    const Output& out = plan.outputs[next++];
    switch (out.kind) {
      case Output::kArgument: return call.returns_arguments ? call.arguments[out.argument] : c10::IValue();
      case Output::kUndefined: return at::Tensor();
      case Output::kConstant: return out.constant;
      case Output::kFresh: break;
    }
    if (out.shares >= 0) {
      const at::Tensor& other = returns[static_cast<size_t>(out.shares)].toTensor();
      return make_view(other, out.dtype, out.sizes, out.strides, out.offset);
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

void run_once(const Overload& overload, Exchange& call, bool* again) {
  const c10::ArrayRef<c10::IValue> arguments = call.arguments;
  Frame frame;
  read_frame(overload, arguments, frame);
  const uint64_t hash = frame.hash();
  const Plan* plan = overload.plans.find(hash, frame);
  if (plan == nullptr) {
    plan = overload.plans.insert(hash, build_plan(overload, arguments, frame));
    runtime::counters().plans.fetch_add(1, std::memory_order_relaxed);
  }
  if (!plan->resizes.empty()) {
    for (const Resize& it : plan->resizes) {
      const at::Tensor out(c10::intrusive_ptr<at::TensorImpl>::reclaim_copy(frame.tensors[it.tensor].impl));
      at::native::resize_output(out, it.sizes);
      out.unsafeGetTensorImpl()->set_sizes_and_strides(it.sizes, it.strides);
    }
    *again = true;
    return;
  }
  if (overload.kind != Overload::kFunctional) check_overlap(overload, arguments);
  run_plan(*plan, frame, call);
}

}  // namespace

void run_plan(const Plan& plan, const Frame& frame, Exchange& call) {
  Run run{plan, frame};
  Recorder* const recorder = Recorder::active();
  if (plan.random && recorder != nullptr) {
    run.offset = recorder->draw(plan.random_count);
  } else if (plan.random) {
    std::tie(run.seed, run.offset) = draw(frame.generator, plan.random_count);
  }
  if (recorder == nullptr) runtime::counters().ops_recorded.fetch_add(1, std::memory_order_relaxed);

  Region& region = Region::current();
  for (const TensorArg& t : frame.tensors) {
    if (!t.cell->value) continue;
    settle(*t.cell->value, region);
  }
  Values values;
  values.resize(plan.num_results);
  bool due = false;
  if (region.mode() != Mode::kDefer && region.holds == 0) {
    if (const Status status = launch_alone(run, values); !status.ok()) {
      apply_effects(run, values);
      check(status);
    }
    if (region.mode() == Mode::kDebug) wait_and_check(plan, values);
  } else {
    const runtime::Line line = runtime::current_line();
    const std::lock_guard lock(region.mutex);
    c10::SmallVector<Ref, 16> results;
    results.resize(plan.num_results);
    for (const Step& step : plan.steps) record_step(run, step, region, line, results);
    for (const uint32_t r : plan.escaping) values[r] = region.result(results[r].index());
    due = region.due();
  }
  if (recorder != nullptr) recorder->note(plan, frame, values, run.offset);
  apply(run, values, call);
  if (due && region.holds == 0) {  // after apply(): values that the call replaced are dead
    const std::lock_guard lock(region.mutex);
    check(region.cut_due_locked());
  }
}

// PyTorch counts the writes of an in-place operator above this kernel, but for those of lists, whose kernels do it.
void count_writes(const Overload& overload, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!overload.args[i].written || !arguments[i].isTensorList()) continue;
    for (const c10::IValue& v : arguments[i].toListRef()) {
      const at::Tensor& t = v.toTensor();
      if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
    }
  }
}

// Of a meta function's out= and in-place calls: the targets are returned as they are.
void return_targets(const Overload& overload, Exchange& call) {
  const size_t returns = overload.handle.schema().returns().size();
  for (size_t i = 0; i < overload.args.size() && call.returns.size() < returns; ++i) {
    if (overload.args[i].written) call.returns.push_back(call.returns_arguments ? call.arguments[i] : c10::IValue());
  }
}

void run(const Overload& overload, Exchange& call) {
  refuse_fork();
  if (overload.kind != Overload::kFunctional && inside_meta) return return_targets(overload, call);
  if (overload.each && overload.kind != Overload::kFunctional) count_writes(overload, call.arguments);
  bool again = false;
  run_once(overload, call, &again);
  if (again) {
    again = false;
    run_once(overload, call, &again);
    TORCH_INTERNAL_ASSERT(!again, overload.handle.schema(), ": out= tensors did not take their sizes");
  }
}

void run(const Overload& overload, torch::jit::Stack* stack) {
  StackExchange call(stack, overload.args.size());
  run(overload, call);
  call.finish();
}

}  // namespace tpu::aten
