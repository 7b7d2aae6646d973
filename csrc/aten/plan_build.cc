// From a call to its plan: PyTorch's meta function says what comes out, the op table how it is made, the view classes
// how operands are read and results written.

#include <ATen/native/TypeProperties.h>
#include <c10/util/strides.h>

#include <unordered_map>

#include "aten/dtype.h"
#include "aten/errors.h"
#include "aten/foreach.h"
#include "aten/meta.h"
#include "aten/native_checks.h"
#include "aten/own_metas.h"
#include "aten/plan.h"

namespace tpu::aten {
namespace {

using hlo::Attr;
using hlo::Call;
using hlo::Type;

// The constant of undefined contents: torch.empty reads as zeros.
hlo::Values emit_zeros(hlo::Builder& b, const Call& call, std::span<const hlo::Value>) {
  return {b.zeros(*call.results[0])};
}

Attr to_attr(const c10::IValue& v) {
  if (v.isInt()) return v.toInt();
  if (v.isDouble()) return v.toDouble();
  if (v.isBool()) return v.toBool();
  if (v.isComplexDouble()) return std::complex<double>(v.toComplexDouble());
  if (v.isString()) return v.toStringRef();
  if (v.isIntList()) return v.toIntVector();
  if (v.isDoubleList()) return v.toDoubleVector();
  if (v.isBoolList()) {
    hlo::Dims flags;
    for (const bool b : v.toBoolList()) flags.push_back(b);
    return flags;
  }
  if (v.isList() && v.toListRef().empty()) return hlo::Dims{};
  return std::monostate{};
}

class PlanBuilder {
 public:
  PlanBuilder(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, const Frame& frame)
      : overload_(overload),
        row_(*overload.row),
        own_meta_(own_meta(row_.name)),
        arguments_(arguments),
        frame_(frame),
        plan_(new Plan) {}

  std::unique_ptr<Plan> build() {
    plan_->words.assign(frame_.words.begin(), frame_.words.end());
    if (row_.refusal != nullptr) check(row_.refusal(signature()));
    const bool promotes = row_.trait.promotes && !row_.computes_in_result && !overload_.each;
    if (overload_.kind != Overload::kFunctional && promotes) check_targets();
    const bool known = row_.result_types != nullptr || own_meta_ != nullptr;
    const MetaResult meta = known ? known_results() : run_meta(overload_.handle, arguments_);
    if (row_.trait.one_dtype) check_dtypes();
    if (find_resizes(meta)) return std::move(plan_);
    find_results(meta);
    const std::vector<Part> parts = overload_.each ? split_each(overload_, arguments_) : whole();
    const size_t each = result_types_.size() / parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      results_ = std::span(result_types_).subspan(i * each, each);
      choose_compute(parts[i]);
      gather_operands(parts[i]);
      write_back(add_call(), i * each);
    }
    return std::move(plan_);
  }

 private:
  // --- steps ------------------------------------------------------------------------------------------------------
  uint32_t step(const Call* call, std::span<const Source> sources) {
    TORCH_INTERNAL_ASSERT(call->operands.size() == sources.size());
    const uint32_t first = plan_->num_results;
    plan_->steps.push_back({call, static_cast<uint32_t>(plan_->sources.size()), first});
    plan_->sources.insert(plan_->sources.end(), sources.begin(), sources.end());
    plan_->num_results += static_cast<uint32_t>(call->results.size());
    return first;
  }
  static Source result(uint32_t index) { return {Source::kStep, {}, index}; }

  Source contents(uint32_t tensor) {
    const TensorArg& t = frame_.tensors[tensor];
    if (const auto found = written_.find(t.cell); found != written_.end()) return found->second;
    if (t.cell->value) return {Source::kTensor, {}, tensor};
    Call zeros;
    zeros.name = "view.undefined";
    zeros.emit = emit_zeros;
    zeros.results = {t.cell->type};
    return result(step(hlo::intern(std::move(zeros)), {}));
  }

  void append_starts(const TensorArg& t, std::vector<Source>& to) {
    for (int i = 0; i < t.view->num_starts; ++i) {
      to.push_back({Source::kStart, t.view->start_dtype, t.first_start + static_cast<uint32_t>(i)});
    }
  }

  Source read(uint32_t tensor) {
    const TensorArg& t = frame_.tensors[tensor];
    if (t.view == nullptr) return contents(tensor);
    std::vector<Source> sources{contents(tensor)};
    append_starts(t, sources);
    return result(step(t.view->read, sources));
  }

  // --- PyTorch's word ---------------------------------------------------------------------------------------------
  // The attributes and operands of the call, before anything is known about its results.
  Call signature() const {
    Call call;
    call.name = row_.name;
    for (size_t i = 0; i < overload_.row_args; ++i) {
      call.attributes.resize(static_cast<size_t>(overload_.args[i].position));
      std::vector<at::Tensor> tensors;
      append_tensors(arguments_[i], tensors);
      for (const at::Tensor& t : tensors) {
        call.operands.push_back(hlo::intern({to_dtype(t.scalar_type()), t.sizes().vec()}));
      }
      Attr attr;  // as it will be in the call, as far as it is known
      if (overload_.args[i].kind == ops::Arg::kStatic) attr = to_attr(arguments_[i]);
      if (overload_.args[i].kind == ops::Arg::kOptionalTensor && !tensors.empty()) attr = int64_t{1};
      call.attributes.push_back(std::move(attr));
    }
    return call;
  }

  // As a meta function would have said it.
  MetaResult known_results() const {
    MetaResult meta;
    meta.arguments = arguments_.vec();
    std::vector<at::Tensor> results;
    if (own_meta_ != nullptr) {
      results = own_meta_(arguments_.slice(0, overload_.row_args));
    } else {
      for (const Type& type : row_.result_types(signature())) {
        results.push_back(at::empty(type.dims, at::TensorOptions(at::kMeta).dtype(to_scalar_type(type.dtype))));
      }
    }
    // out= tensors take the sizes of the results.
    for (size_t i = overload_.row_args; i < arguments_.size(); ++i) {
      const at::Tensor& result = results[i - overload_.row_args];
      meta.arguments[i] = at::empty(result.sizes(), result.options());
    }
    const auto& returns = overload_.handle.schema().returns();
    if (returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType) {
      meta.returns.emplace_back(std::move(results));
    } else {
      meta.returns.assign(results.begin(), results.end());
      meta.returns.resize(returns.size());  // the others are written to arguments
    }
    return meta;
  }

  void check_dtypes() const {
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < overload_.row_args; ++i) append_tensors(arguments_[i], tensors);
    check_one_dtype(overload_.handle.operator_name().name, tensors);
  }

  // Meta functions in Python have words of their own for this, or do not look at the dtype of what is written.
  void check_targets() const {
    std::vector<at::Tensor> targets;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (overload_.args[i].written) append_tensors(arguments_[i], targets);
    }
    const std::vector<at::Tensor> made = returned_without_targets();
    for (size_t i = 0; i < std::min(made.size(), targets.size()); ++i) check_castable(made[i], targets[i]);
  }

  // out= tensors that the meta function resized: then the plan only does that. They take the strides of what is
  // returned where there is no target, which meta functions of out= overloads forget.
  bool find_resizes(const MetaResult& meta) {
    uint32_t tensor = 0;
    std::vector<size_t> numbers;  // of the results that go to them
    size_t number = 0;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      std::vector<at::Tensor> ours, theirs;
      append_tensors(arguments_[i], ours);
      append_tensors(meta.arguments[i], theirs);
      for (size_t k = 0; k < ours.size(); ++k) {
        if (ours[k].device().type() != at::kPrivateUse1) continue;
        if (overload_.writes(i, arguments_) && ours[k].sizes() != theirs[k].sizes()) {
          plan_->resizes.push_back({tensor, theirs[k].sizes().vec(), theirs[k].strides().vec()});
          numbers.push_back(number);
        }
        number += i >= overload_.row_args;
        ++tensor;
      }
    }
    if (plan_->resizes.empty()) return false;
    const std::vector<at::Tensor> made = returned_without_targets();
    for (size_t i = 0; i < numbers.size(); ++i) {
      Resize& resize = plan_->resizes[i];
      if (numbers[i] >= made.size() || made[numbers[i]].sizes() != resize.sizes) continue;
      resize.strides = made[numbers[i]].strides().vec();
    }
    return true;
  }

  // By the meta function of the functional overload, if it takes the same arguments.
  std::vector<at::Tensor> returned_without_targets() const {
    const size_t dot = row_.name.find('.');
    const auto functional = c10::Dispatcher::singleton().findSchema(
        {"aten::" + row_.name.substr(0, dot), dot == std::string::npos ? "" : row_.name.substr(dot + 1)});
    std::vector<at::Tensor> made;
    if (own_meta_ != nullptr || row_.result_types != nullptr || !functional ||
        functional->schema().arguments().size() != overload_.row_args) {
      return made;
    }
    for (const c10::IValue& v : run_meta(*functional, arguments_.slice(0, overload_.row_args)).returns) {
      append_tensors(v, made);
    }
    return made;
  }

  void find_results(const MetaResult& meta) {
    const auto& schema = overload_.handle.schema();
    for (size_t i = 0; i < meta.returns.size(); ++i) {
      const auto* alias = schema.returns()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) {
        plan_->returns.push_back(-1);
        plan_->outputs.push_back({.kind = Output::kArgument, .argument = aliased_argument(*alias)});
        continue;
      }
      const c10::IValue& v = meta.returns[i];
      if (v.isTensor()) {
        plan_->returns.push_back(-1);
        add_fresh(i == 0 ? in_format(v.toTensor()) : v.toTensor());
      } else if (v.isTensorList()) {
        const auto list = v.toTensorVector();
        plan_->returns.push_back(static_cast<int32_t>(list.size()));
        for (const at::Tensor& t : list) add_fresh(t);
      } else {
        plan_->returns.push_back(-1);
        plan_->outputs.push_back({.kind = Output::kConstant, .constant = v});
      }
    }
    // Those that are returned come first, in the order of the functional overload's returns.
    std::vector<size_t> order;
    for (const Output& out : plan_->outputs) {
      if (out.kind == Output::kArgument) order.push_back(out.argument);
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (overload_.writes(i, arguments_) && std::find(order.begin(), order.end(), i) == order.end())
        order.push_back(i);
    }
    for (const size_t i : order) add_targets(i);
  }

  void add_targets(size_t argument) {
    uint32_t tensor = 0;
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < argument; ++i) append_tensors(arguments_[i], tensors);
    for (const at::Tensor& t : tensors) tensor += t.device().type() == at::kPrivateUse1;
    tensors.clear();
    append_tensors(arguments_[argument], tensors);
    for (const at::Tensor& t : tensors) {
      if (t.device().type() != at::kPrivateUse1) continue;
      targets_.push_back(tensor++);
      result_types_.push_back(hlo::intern({to_dtype(t.scalar_type()), t.sizes().vec()}));
    }
  }

  uint32_t aliased_argument(const c10::AliasInfo& alias) {
    const auto& arguments = overload_.handle.schema().arguments();
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      const auto* info = arguments[i].alias_info();
      if (info != nullptr && info->beforeSets() == alias.beforeSets()) return i;
    }
    TORCH_INTERNAL_ASSERT(false, overload_.handle.schema(), ": a return aliases no argument");
  }

  at::Tensor in_format(const at::Tensor& meta) const {
    for (const int i : row_.format_of) {
      const c10::IValue& v = arguments_[static_cast<size_t>(i)];
      const auto format = v.isTensor() ? v.toTensor().suggest_memory_format() : at::MemoryFormat::Contiguous;
      if (format != at::MemoryFormat::Contiguous) return at::empty(meta.sizes(), meta.options().memory_format(format));
    }
    return meta;
  }

  void add_fresh(const at::Tensor& meta) {
    if (!meta.defined()) {
      plan_->outputs.push_back({.kind = Output::kUndefined});
      return;
    }
    Output out;
    out.dtype = meta.scalar_type();
    out.sizes = meta.sizes().vec();
    out.strides = meta.strides().vec();
    // By the strides themselves: those of dimensions of size 0 and 1 are seen by users too.
    out.contiguous = meta.strides().equals(c10::contiguous_strides(meta.sizes()));
    out.bytes = at::detail::computeStorageNbytes(meta.sizes(), meta.strides(), c10::elementSize(out.dtype));
    const DType dtype = to_dtype(out.dtype);
    out.type =
        out.contiguous ? hlo::intern({dtype, out.sizes}) : natural_type(dtype, out.sizes, out.strides, 0, out.bytes);
    result_types_.push_back(hlo::intern({dtype, out.sizes}));
    plan_->outputs.push_back(std::move(out));
  }

  // --- the call ---------------------------------------------------------------------------------------------------
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
        if ((kind == ops::Arg::kScalar || kind == ops::Arg::kNumbers) && !v.isNone()) {
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
    call_.name = row_.name;
    call_.emit = row_.emit;
    call_.data = &row_;
    call_.compute = compute_;
    const auto operand = [&](Source source, Type type) {
      sources_.push_back(source);
      call_.operands.push_back(hlo::intern(std::move(type)));
    };
    const auto tensor_operand = [&](const at::Tensor& t) {
      if (t.device().type() == at::kPrivateUse1) {
        operand(read(tensor), {to_dtype(t.scalar_type()), t.sizes().vec()});
        ++tensor;
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
        case ops::Arg::kScalar: {
          if (v.isNone()) {
            attr = false;
            break;
          }
          const NumberArg n = NumberArg::of(v.toScalar());
          if (n.is_identity()) {
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
  }

  uint32_t add_call() {
    if (frame_.words[1] != 0 && row_.check != nullptr) {
      Call check = call_;
      check.emit = row_.check;
      check.results = {hlo::intern({DType::kS64, {3}})};
      check.name = "debug.check";
      check.attributes.emplace_back(row_.name);
      plan_->check = static_cast<int32_t>(step(hlo::intern(std::move(check)), sources_));
      plan_->check_name = row_.name.c_str();
    }
    call_.results.assign(results_.begin(), results_.end());
    if (plan_->random) {  // one counter for each element of the largest
      for (const auto* types : {&call_.operands, &call_.results}) {
        for (const Type* t : *types)
          plan_->random_count = std::max(plan_->random_count, static_cast<uint64_t>(t->numel()));
      }
    }
    return step(hlo::intern(std::move(call_)), sources_);
  }

  // Results in order: fresh returns, then the arguments that are written. `first` of all results is `next`.
  void write_back(uint32_t next, size_t first) {
    std::vector<Output*> fresh;
    for (Output& out : plan_->outputs) {
      if (out.kind == Output::kFresh) fresh.push_back(&out);
    }
    for (size_t i = first; i < first + results_.size(); ++i) {
      if (i < fresh.size()) {
        fill(*fresh[i], result(next++));
      } else {
        write(targets_[i - fresh.size()], result(next++));
      }
    }
  }

  void fill(Output& out, Source value) {
    out.source = value;
    if (out.type->dims == out.sizes && out.contiguous) return;
    int64_t starts[hlo::kMaxDigits];
    const hlo::ViewClass* view = hlo::classify(out.type, to_dtype(out.dtype), {out.sizes, out.strides, 0}, starts);
    std::vector<Source> sources{out.source};
    if (!view->covers) {
      Call zeros;
      zeros.name = "view.undefined";
      zeros.emit = emit_zeros;
      zeros.results = {out.type};
      sources.insert(sources.begin(), result(step(hlo::intern(std::move(zeros)), {})));
      TORCH_INTERNAL_ASSERT(view->num_starts == 0 || view->gathers, "a fresh tensor starts at 0");
      for (int i = 0; i < view->num_starts; ++i) sources.push_back({Source::kStart, view->start_dtype, ~0u});
    }
    out.source = result(step(view->write, sources));
  }

  // Writes one value everywhere, so elements that share memory agree.
  bool fills() const {
    const c10::OperatorName& op = overload_.handle.operator_name();
    return op.name == "aten::zero_" || (op.name == "aten::fill_" && op.overload_name == "Scalar");
  }

  void write(uint32_t tensor, Source value) {
    const TensorArg& t = frame_.tensors[tensor];
    if (t.view != nullptr) {
      if (t.view->overlaps && !fills()) at::assert_no_internal_overlap(t.impl);
      std::vector<Source> sources{value};
      if (!t.view->covers) {
        sources.insert(sources.begin(), contents(tensor));
        append_starts(t, sources);
      }
      value = result(step(t.view->write, sources));
    }
    written_.insert_or_assign(t.cell, value);
    plan_->effects.push_back({tensor, value});
  }

  const Overload& overload_;
  const ops::Row& row_;
  const OwnMeta own_meta_;
  c10::ArrayRef<c10::IValue> arguments_;
  const Frame& frame_;
  std::unique_ptr<Plan> plan_;

  std::vector<const Type*> result_types_;
  std::span<const Type* const> results_;  // those of the part at hand
  std::vector<uint32_t> targets_;         // tensors written, in the order of their results
  DType compute_ = DType::kF32;
  Call call_;
  std::vector<Source> sources_;
  std::unordered_map<Cell*, Source> written_;  // cells that this plan has replaced so far
};

}  // namespace

std::unique_ptr<Plan> build_plan(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, const Frame& frame) {
  return PlanBuilder(overload, arguments, frame).build();
}

}  // namespace tpu::aten
