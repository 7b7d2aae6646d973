// From a call to its plan: PyTorch's meta function says what comes out, the op table how it is made, the view classes
// how operands are read and results written.

#include <ATen/native/TypeProperties.h>

#include "aten/dtype.h"
#include "aten/errors.h"
#include "aten/foreach.h"
#include "aten/growth.h"
#include "aten/meta.h"
#include "aten/plan.h"
#include "aten/plan_promise.h"
#include "aten/plan_steps.h"

namespace tpu::aten {
namespace {

using hlo::Attr;
using hlo::Call;
using hlo::Type;

class PlanBuilder {
 public:
  PlanBuilder(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, const Frame& frame)
      : overload_(overload),
        row_(*overload.row),
        arguments_(arguments),
        frame_(frame),
        plan_(new Plan),
        steps_(frame, *plan_) {}

  std::unique_ptr<Plan> build() {
    plan_->words.assign(frame_.words.begin(), frame_.words.end());
    Promise promised = promise(overload_, arguments_);
    plan_->resizes = std::move(promised.resizes);
    if (!plan_->resizes.empty()) return std::move(plan_);
    plan_->outputs = std::move(promised.outputs);
    plan_->returns = std::move(promised.returns);
    targets_ = std::move(promised.targets);
    const std::vector<Part> parts = overload_.each ? split_each(overload_, arguments_) : whole();
    const size_t each = promised.types.size() / parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      results_ = std::span(promised.types).subspan(i * each, each);
      choose_compute(parts[i]);
      gather_operands(parts[i]);
      read_operands();
      write_back(add_call(), i * each);
    }
    return std::move(plan_);
  }

 private:
  std::vector<Part> whole() const {
    Part part;
    for (size_t i = 0; i < overload_.row_args; ++i) {
      const ArgSpec& spec = overload_.args[i];
      part.push_back({arguments_[i], spec.kind, static_cast<size_t>(spec.position), {}});
    }
    return {part};
  }

  void choose_compute(const Part& part) {
    const DType result = results_.empty() ? DType::kF32 : results_[0]->dtype;
    compute_ = row_.numbers != nullptr ? row_.numbers(result) : result;
    if (row_.numbers != nullptr) return;
    if (row_.trait.promotes && !row_.computes_in_result) {
      at::native::ResultTypeState state;
      for (const PartArgument& argument : part) {
        const c10::IValue& v = argument.value;
        const ops::Arg kind = argument.kind;
        if ((kind == ops::Arg::kScalar || kind == ops::Arg::kFactor || kind == ops::Arg::kNumbers) && !v.isNone()) {
          state = at::native::update_result_type_state(v.toScalar(), state);
        } else if (kind <= ops::Arg::kOptionalTensors) {
          std::vector<at::Tensor> tensors;
          append_tensors(v, tensors);
          for (const at::Tensor& t : tensors) state = at::native::update_result_type_state(t, state);
        }
      }
      const at::ScalarType common = at::native::result_type(state);
      if (common != at::ScalarType::Undefined) compute_ = to_dtype(common);
      const bool inexact = is_float(result) || is_complex(result);
      if (inexact && !is_float(compute_) && !is_complex(compute_)) compute_ = result;
    }
    if (row_.trait.widens) compute_ = opmath_of(compute_);
  }

  void gather_operands(const Part& part) {
    uint32_t tensor = 0, number = 0;
    call_ = {};
    sources_.clear();
    readings_.clear();
    like_.reset();
    call_.name = row_.name;
    call_.emit = row_.emit;
    call_.data = &row_;
    call_.has_effect = row_.has_effect;
    call_.quick = row_.quick;
    call_.compute = compute_;
    const auto operand = [&](Source source, Type type) {
      sources_.push_back(source);
      call_.operands.push_back(hlo::intern(std::move(type)));
    };
    const auto tensor_operand = [&](const at::Tensor& t) {
      if (t.device().type() == at::kPrivateUse1) {
        readings_.push_back({sources_.size(), tensor++});
        operand({Source::kTensor}, {to_dtype(t.scalar_type()), t.sizes().vec()});
      } else {  // a 0-d CPU tensor is a number
        const DType dtype = row_.trait.promotes ? compute_ : to_dtype(t.scalar_type());
        operand({Source::kNumber, runtime::word_dtype(dtype), number++}, {dtype, {}});
      }
    };
    const auto draw = [&] {
      operand({Source::kSeed, DType::kU64, 0}, {DType::kU64, {}});
      operand({Source::kOffset, DType::kU64, 0}, {DType::kU64, {}});
      plan_->random = true;
    };
    size_t uploaded = 0;
    for (const PartArgument& argument : part) {
      const c10::IValue& v = argument.value;
      if (argument.at) std::tie(tensor, number) = std::pair(argument.at->tensor, argument.at->number);
      call_.attributes.resize(argument.position);  // those that the overload lacks
      Attr attr;
      switch (argument.kind) {
        case ops::Arg::kTensor:
        case ops::Arg::kOptionalTensor:
          if (!v.isNone() && v.toTensor().defined()) {
            tensor_operand(v.toTensor());
            attr = int64_t{1};
          }
          break;
        case ops::Arg::kLike:
          if (v.toTensor().is_cpu()) {
            ++number;
          } else {
            like_ = tensor++;
          }
          break;
        case ops::Arg::kTensors: {
          int64_t n = 0;
          for (const c10::IValue& e : v.toListRef()) {
            tensor_operand(e.toTensor());
            ++n;
          }
          attr = n;
          break;
        }
        case ops::Arg::kOptionalTensors: {
          hlo::Dims present;
          for (const c10::IValue& e : v.toListRef()) {
            const bool there = !e.isNone() && e.toTensor().defined();
            present.push_back(there);
            if (there) tensor_operand(e.toTensor().is_cpu() ? frame_.uploaded[uploaded++] : e.toTensor());
          }
          attr = std::move(present);
          break;
        }
        case ops::Arg::kScalar:
        case ops::Arg::kFactor: {
          if (v.isNone()) {
            attr = false;
            break;
          }
          const NumberArg n = NumberArg::of(v.toScalar());
          if (argument.kind == ops::Arg::kFactor && n.is_identity()) {
            attr = n.kind == NumberArg::kInt ? static_cast<double>(n.i) : n.re;
          } else {
            operand({Source::kNumber, runtime::word_dtype(compute_), number++}, {compute_, {}});
          }
          break;
        }
        case ops::Arg::kNumbers:
          operand({Source::kNumber, runtime::word_dtype(compute_), number++}, {compute_, {}});
          break;
        case ops::Arg::kPosition:
          if (v.isNone()) break;
          operand({Source::kNumber, DType::kS64, number++}, {DType::kS64, {}});
          attr = int64_t{1};
          break;
        case ops::Arg::kRandom: draw(); break;
        case ops::Arg::kStatic: attr = to_attr(v); break;
        case ops::Arg::kDType:
          if (!v.isNone()) attr = to_dtype(v.toScalarType());
          break;
        case ops::Arg::kIgnore:
        case ops::Arg::kDrawn: break;
      }
      call_.attributes.push_back(std::move(attr));
    }
    call_.attributes.resize(row_.args.size());
    if (row_.draws) draw();
    call_.results.assign(results_.begin(), results_.end());
  }

  void read_operands() {
    std::vector<const Output*> fresh;
    for (const Output& out : plan_->outputs) {
      if (out.kind == Output::kFresh) fresh.push_back(&out);
    }
    if (!overload_.each && grow({row_, frame_, readings_, fresh, targets_, like_}, call_, sources_, steps_, *plan_))
      return;
    for (const Reading& r : readings_) sources_[r.operand] = steps_.read(r.tensor);
  }

  uint32_t add_call() {
    if (frame_.debug() && row_.check != nullptr) {
      Call check = call_;
      check.emit = row_.check;
      check.results = {hlo::intern({DType::kS64, {3}})};
      check.name = "debug.check";
      check.attributes.emplace_back(row_.name);
      plan_->check = static_cast<int32_t>(steps_.step(hlo::intern(std::move(check)), sources_));
      plan_->check_name = row_.name.c_str();
    }
    if (row_.trait.multiplies && real_of(call_.operands[0]->dtype) == DType::kF32) call_.precision = frame_.precision();
    if (plan_->random) {  // one counter for each element of the largest
      for (const auto* types : {&call_.operands, &call_.results}) {
        for (const Type* t : *types)
          plan_->random_count = std::max(plan_->random_count, static_cast<uint64_t>(t->numel()));
      }
    }
    made_ = call_.results;
    const hlo::Call* call = hlo::intern(std::move(call_));
    // What the checks of PyTorch let through is refused here, and not where a region is cut, whose other operators
    // would share the error.
    try {
      hlo::check_emits(call, check(runtime::Device::get())->on_cpu());
    } catch (const hlo::BuildError& error) {
      TORCH_CHECK(false, "aten::", row_.name, " does not take these arguments: ", error.what());
    }
    return steps_.step(call, sources_);
  }

  // Results in order: fresh returns, then the arguments that are written. `first` of all results is `next`.
  void write_back(uint32_t next, size_t first) {
    std::vector<Output*> fresh;
    for (Output& out : plan_->outputs) {
      if (out.kind == Output::kFresh) fresh.push_back(&out);
    }
    for (size_t i = first; i < first + results_.size(); ++i) {
      const Type& made = *made_[i - first];
      const Source value = StepBuilder::result(next++);
      if (i < fresh.size()) {
        steps_.fill(*fresh[i], value, made.dims);
      } else if (const uint32_t target = targets_[i - fresh.size()]; made.dims != results_[i - first]->dims) {
        steps_.write_whole(target, value);
      } else {
        steps_.write(target, value, fills());
      }
    }
  }

  // Writes one value everywhere, so elements that share memory agree.
  bool fills() const {
    const c10::OperatorName& op = overload_.handle.operator_name();
    return op.name == "aten::zero_" || (op.name == "aten::fill_" && op.overload_name == "Scalar");
  }

  const Overload& overload_;
  const ops::Row& row_;
  c10::ArrayRef<c10::IValue> arguments_;
  const Frame& frame_;
  std::unique_ptr<Plan> plan_;
  StepBuilder steps_;

  std::span<const Type* const> results_;  // those of the part at hand
  std::vector<uint32_t> targets_;         // tensors written, in the order of their results
  DType compute_ = DType::kF32;
  Call call_;
  std::vector<Source> sources_;
  std::optional<uint32_t> like_;   // the tensor that the result is like
  std::vector<Reading> readings_;  // operands that are tensors, not read yet
  std::vector<const Type*> made_;  // results of the call: results_, or these with padding
};

}  // namespace

std::unique_ptr<Plan> build_plan(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, const Frame& frame) {
  return PlanBuilder(overload, arguments, frame).build();
}

}  // namespace tpu::aten
