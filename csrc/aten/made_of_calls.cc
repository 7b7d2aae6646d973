#include "aten/made_of_calls.h"

#include "aten/dtype.h"
#include "aten/engine.h"
#include "aten/errors.h"
#include "aten/meta.h"
#include "aten/plan_steps.h"
#include "aten/record.h"
#include "aten/recorder.h"
#include "runtime/region.h"

namespace tpu::aten {
namespace {

using Make = std::function<bool(torch::jit::Stack&)>;

hlo::Values emit_number(hlo::Builder&, const hlo::Call&, std::span<const hlo::Value> operands) { return {operands[0]}; }

// Stand-ins for the tensors of a frame. Reading those becomes the plan's first steps.
class StandIns {
 public:
  StandIns(const Frame& frame, Plan& plan, Recorder& recorder)
      : frame_(frame), recorder_(recorder), steps_(frame, plan) {}

  c10::IValue of(const c10::IValue& v) {
    const auto each = [&](const at::Tensor& t) { return of(t); };
    return map_tensors(v, each,
                       [&](const at::Tensor& t) { return of(t.is_cpu() ? frame_.uploaded[next_uploaded_++] : t); });
  }

 private:
  at::Tensor of(const at::Tensor& t) {
    if (!t.defined()) return t;
    if (t.device().type() == at::kPrivateUse1) return of(t, next_++);
    // A 0-d tensor of the CPU, whose number is that of each call; one that a Python number was wrapped in is part of
    // the signature.
    const uint32_t index = next_number_++;
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) return t;
    const DType dtype = to_dtype(t.scalar_type());
    hlo::Call call;
    call.name = "number";
    call.emit = emit_number;
    call.operands = call.results = {hlo::intern({dtype, {}})};
    const Source number{Source::kNumber, runtime::word_dtype(dtype), index};
    return recorder_.stand_in(StepBuilder::result(steps_.step(hlo::intern(std::move(call)), {&number, 1})),
                              t.scalar_type(), {});
  }

  // A whole storage in another order of dimensions keeps its strides, which what results may follow.
  at::Tensor of(const at::Tensor& t, uint32_t index) {
    const TensorArg& arg = frame_.tensors[index];
    const bool whole = arg.view != nullptr && arg.view->num_starts == 0 && t.storage_offset() == 0;
    if (whole && arg.cell->value && arg.cell->value->type == arg.cell->type)
      return recorder_.stand_in({Source::kTensor, {}, index}, arg.cell->type, t);
    return recorder_.stand_in(steps_.read(index), t.scalar_type(), t.sizes());
  }

  const Frame& frame_;
  Recorder& recorder_;
  StepBuilder steps_;
  uint32_t next_ = 0, next_number_ = 0, next_uploaded_ = 0;
};

void add_wrapped_number(const at::Tensor& t, Frame& frame) {
  if (!t.defined() || !t.unsafeGetTensorImpl()->is_wrapped_number()) return;
  const auto [low, high] = NumberArg::of(t.item()).bits(DType::kC128);
  frame.words.push_back(low);
  frame.words.push_back(high);
}

enum class Traced { kPlan, kByCalls, kNothing };

Traced trace(c10::ArrayRef<c10::IValue> arguments, const Frame& frame, Plan& plan, const Make& make) {
  const runtime::Scratch scratch;
  Recorder recorder(plan);
  torch::jit::Stack inner;
  try {
    StandIns stand_ins(frame, plan, recorder);
    for (const c10::IValue& v : arguments) inner.push_back(stand_ins.of(v));
    if (!make(inner)) return Traced::kNothing;
    return recorder.finish(inner) ? Traced::kPlan : Traced::kByCalls;
  } catch (...) {
    if (recorder.replayable()) throw;
    return Traced::kByCalls;
  }
}

bool run_by_calls(size_t n, torch::jit::Stack* stack, const Make& make) {
  torch::jit::Stack inner = torch::jit::last(*stack, n).vec();
  if (!make(inner)) return false;
  torch::jit::drop(*stack, n);
  stack->insert(stack->end(), inner.begin(), inner.end());
  return true;
}

}  // namespace

bool run_made_of_calls(const Overload& overload, torch::jit::Stack* stack, const Make& make) {
  refuse_fork();
  const size_t n = overload.args.size();
  if (runtime::Region::current().mode() == runtime::Mode::kDebug) return run_by_calls(n, stack, make);
  const c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, n);
  Frame frame;
  read_frame(overload, arguments, frame);
  if (!frame.numbers.empty()) {
    for (const c10::IValue& v : arguments) {
      if (v.isTensor()) add_wrapped_number(v.toTensor(), frame);
      if (!v.isTensorList()) continue;
      for (const c10::IValue& e : v.toListRef()) add_wrapped_number(e.toTensor(), frame);
    }
  }
  const uint64_t hash = frame.hash();
  const Plan* plan = overload.plans.find(hash, frame);
  if (plan == nullptr) {
    auto made = std::make_unique<Plan>();
    const Traced traced = trace(arguments, frame, *made, make);
    if (traced == Traced::kNothing) return false;
    if (traced == Traced::kByCalls) {
      made = std::make_unique<Plan>();
      made->by_calls = true;
    }
    made->words.assign(frame.words.begin(), frame.words.end());
    plan = overload.plans.insert(hash, std::move(made));
  }
  if (!plan->by_calls) {
    StackExchange call(stack, n);
    run_plan(*plan, frame, call);
    call.finish();
    return true;
  }
  bool done;
  {
    const Hold hold;
    done = run_by_calls(n, stack, make);
  }
  runtime::Region& region = runtime::Region::current();
  if (region.mode() != runtime::Mode::kDefer) check(region.cut());
  return done;
}

}  // namespace tpu::aten
