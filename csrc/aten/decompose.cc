#include "aten/decompose.h"

#include <unordered_map>

#include "aten/engine.h"
#include "aten/errors.h"
#include "aten/native_checks.h"
#include "aten/record.h"
#include "aten/recorder.h"
#include "runtime/device.h"

namespace tpu::aten {
namespace {

Decompose decompose = nullptr;

// An operator that has a decomposition and no row. All its numbers are part of the signature, since a decomposition may
// do anything with them.
struct Decomposed {
  ops::Row row;
  Overload overload;
  explicit Decomposed(const c10::OperatorHandle& op) : row(make_row(op)), overload(&row, op, Overload::kFunctional) {}

 private:
  static ops::Row make_row(const c10::OperatorHandle& op) {
    ops::Row row;
    row.name = toString(op.operator_name()).substr(6);  // without aten::
    row.trait = ops::plain;
    for (const c10::Argument& argument : op.schema().arguments()) row.args.push_back(kind_of(*argument.real_type()));
    return row;
  }
  static ops::Arg kind_of(const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::TensorType: return ops::Arg::kTensor;
      case c10::TypeKind::GeneratorType: return ops::Arg::kRandom;
      case c10::TypeKind::ScalarTypeType: return ops::Arg::kDType;
      case c10::TypeKind::OptionalType: {
        const ops::Arg inner = kind_of(*type.expectRef<c10::OptionalType>().getElementType());
        return inner == ops::Arg::kTensor ? ops::Arg::kOptionalTensor : inner;
      }
      case c10::TypeKind::ListType: {
        const c10::TypePtr element = type.expectRef<c10::ListType>().getElementType();
        if (element->kind() == c10::TypeKind::TensorType) return ops::Arg::kTensors;
        return element->kind() == c10::TypeKind::OptionalType ? ops::Arg::kOptionalTensors : ops::Arg::kStatic;
      }
      default: return ops::Arg::kStatic;
    }
  }
};

struct Known {
  std::mutex mutex;
  std::unordered_map<c10::OperatorName, std::unique_ptr<Decomposed>> ops;
};
Known& known() {
  static auto* const known = new Known;
  return *known;
}

Decomposed& find(const c10::OperatorHandle& op) {
  const std::lock_guard lock(known().mutex);
  auto& slot = known().ops[op.operator_name()];
  if (!slot) slot = std::make_unique<Decomposed>(op);
  return *slot;
}

// The tensors of the frame as dense tensors of their own, so that what the decomposition does is a function of the
// signature; reading them becomes the plan's first steps.
class DenseArguments {
 public:
  DenseArguments(const Frame& frame, Plan& plan) : frame_(frame), plan_(plan) {}

  c10::IValue of(const c10::IValue& v) {
    if (v.isTensor()) return of(v.toTensor());
    if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(of(t));
      return list;
    }
    if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& e : v.toListRef()) {
        list.push_back(e.isNone() ? std::nullopt : std::optional(of(e.toTensor())));
      }
      return list;
    }
    return v;
  }
  std::vector<std::pair<runtime::ValuePtr, Source>> inputs;

 private:
  at::Tensor of(const at::Tensor& t) {
    if (!t.defined() || t.device().type() != at::kPrivateUse1) return t;
    const uint32_t index = next_++;
    const TensorArg& arg = frame_.tensors[index];
    Source source{Source::kTensor, {}, index};
    at::Tensor dense = t;
    if (arg.view != nullptr || !arg.cell->value) {
      dense = t.clone(at::MemoryFormat::Contiguous);
      if (arg.cell->value) {
        source = read(arg, source);
      } else {
        return dense;  // undefined contents: the recorder will not know this value, and give up
      }
    }
    inputs.emplace_back(cell_of(*dense.unsafeGetTensorImpl()).value, source);
    return dense;
  }

  Source read(const TensorArg& arg, Source contents) {
    const hlo::Call* call = arg.view->read;
    plan_.steps.push_back({call, static_cast<uint32_t>(plan_.sources.size()), plan_.num_results});
    plan_.sources.push_back(contents);
    for (int i = 0; i < arg.view->num_starts; ++i) {
      plan_.sources.push_back({Source::kStart, arg.view->start_dtype, arg.first_start + static_cast<uint32_t>(i)});
    }
    return {Source::kStep, {}, plan_.num_results++};
  }

  const Frame& frame_;
  Plan& plan_;
  uint32_t next_ = 0;
};

// Whether the result has the memory format of the first argument, which is not what its dense stand-in has.
bool keeps_format(const c10::OperatorHandle& op) { return op.operator_name().name == "aten::max_unpool2d"; }

}  // namespace

void set_decompose(Decompose d) { decompose = d; }

bool run_decomposed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (decompose == nullptr) return false;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (argument.alias_info() != nullptr) return false;  // writes or returns a view: not a function of values
  }
  Decomposed& known_op = find(op);
  const size_t n = op.schema().arguments().size();
  const std::vector<c10::IValue> arguments = torch::jit::last(*stack, n).vec();
  Frame frame;
  read_frame(known_op.overload, arguments, frame);
  const uint64_t hash = frame.hash();
  if (const Plan* plan = known_op.overload.plans.find(hash, frame)) {
    run_plan(*plan, frame, stack, n);
    runtime::counters().decompositions.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  check_natively(op, arguments);
  auto plan = std::make_unique<Plan>();
  plan->words.assign(frame.words.begin(), frame.words.end());
  torch::jit::Stack inner;
  bool replayable = false;
  {
    const Hold hold;
    DenseArguments dense(frame, *plan);
    for (const c10::IValue& v : arguments) inner.push_back(dense.of(v));
    Recorder recorder(*plan, dense.inputs);
    if (!decompose(op, &inner)) return false;
    if (keeps_format(op)) {
      inner[0] = inner[0].toTensor().contiguous(arguments[0].toTensor().suggest_memory_format());
    }
    replayable = recorder.finish(inner);
  }
  runtime::counters().decompositions.fetch_add(1, std::memory_order_relaxed);
  torch::jit::drop(*stack, n);
  stack->insert(stack->end(), inner.begin(), inner.end());
  if (replayable) known_op.overload.plans.insert(hash, std::move(plan));
  runtime::Region& region = runtime::Region::current();
  if (region.mode() != runtime::Mode::kDefer) check(region.cut());
  return true;
}

}  // namespace tpu::aten
