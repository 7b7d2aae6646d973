#include "aten/plan_promise.h"

#include <c10/util/strides.h>

#include "aten/dtype.h"
#include "aten/errors.h"
#include "aten/foreach.h"
#include "aten/meta.h"
#include "aten/native_checks.h"
#include "aten/own_metas.h"

namespace tpu::aten {

using hlo::Attr;
using hlo::Call;
using hlo::Type;

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

namespace {

class Promiser {
 public:
  Promiser(const Overload& overload, c10::ArrayRef<c10::IValue> arguments)
      : overload_(overload), row_(*overload.row), own_meta_(own_meta(row_.name)), arguments_(arguments) {
    if (own_meta_.for_fresh && overload.kind != Overload::kFunctional) own_meta_ = {};
  }

  Promise run() {
    if (row_.refusal != nullptr) check(row_.refusal(signature()));
    const bool promotes = row_.trait.promotes && !row_.computes_in_result && !overload_.each;
    if (overload_.kind != Overload::kFunctional && promotes) check_targets();
    const bool known = row_.result_types != nullptr || own_meta_.is_known();
    const bool numbers = row_.trait.promotes;
    const MetaResult meta = known            ? known_results()
                            : overload_.each ? run_meta_of_each(overload_, arguments_, numbers)
                                             : run_meta(overload_.handle, arguments_, numbers);
    if (row_.trait.one_dtype) check_dtypes();
    if (!find_resizes(meta)) find_results(meta);
    return std::move(promise_);
  }

 private:
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
    if (own_meta_.returns != nullptr) {
      meta.returns = own_meta_.returns(arguments_);
      return meta;
    }
    std::vector<at::Tensor> results;
    if (own_meta_.results != nullptr) {
      results = own_meta_.results(arguments_.slice(0, overload_.row_args));
    } else {
      for (const Type& type : row_.result_types(signature())) {
        results.push_back(at::empty(type.dims, at::TensorOptions(at::kMeta).dtype(to_scalar_type(type.dtype))));
      }
    }
    // out= tensors take the sizes of the results.
    for (size_t i = overload_.row_args; i < arguments_.size(); ++i) {
      const at::Tensor& result = results[i - overload_.row_args];
      meta.arguments[i] = own_meta_.targets_alike
                              ? at::empty_strided(result.sizes(), result.strides(), result.options())
                              : at::empty(result.sizes(), result.options());
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
    std::vector<at::Tensor> made;
    try {
      made = returned_without_targets();
    } catch (const std::exception&) {
      return;  // this overload refuses it too, in its own words
    }
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
          promise_.resizes.push_back({tensor, theirs[k].sizes().vec(), theirs[k].strides().vec()});
          numbers.push_back(number);
        }
        number += i >= overload_.row_args;
        ++tensor;
      }
    }
    if (promise_.resizes.empty()) return false;
    const std::vector<at::Tensor> made = returned_without_targets();
    for (size_t i = 0; i < numbers.size(); ++i) {
      Resize& resize = promise_.resizes[i];
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
    if (own_meta_.is_known() || row_.result_types != nullptr || !functional ||
        functional->schema().arguments().size() != overload_.row_args) {
      return made;
    }
    for (const c10::IValue& v :
         run_meta(*functional, arguments_.slice(0, overload_.row_args), row_.trait.promotes).returns) {
      append_tensors(v, made);
    }
    return made;
  }

  void find_results(const MetaResult& meta) {
    const auto& schema = overload_.handle.schema();
    for (size_t i = 0; i < meta.returns.size(); ++i) {
      const auto* alias = schema.returns()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) {
        promise_.returns.push_back(-1);
        promise_.outputs.push_back({.kind = Output::kArgument, .argument = aliased_argument(*alias)});
        continue;
      }
      const c10::IValue& v = meta.returns[i];
      if (v.isTensor()) {
        promise_.returns.push_back(-1);
        add_fresh(i == 0 ? in_format(v.toTensor()) : v.toTensor());
      } else if (v.isTensorList()) {
        const auto list = v.toTensorVector();
        promise_.returns.push_back(static_cast<int32_t>(list.size()));
        for (const at::Tensor& t : list) add_fresh(t);
      } else {
        promise_.returns.push_back(-1);
        promise_.outputs.push_back({.kind = Output::kConstant, .constant = v});
      }
    }
    // Those that are returned come first, in the order of the functional overload's returns.
    std::vector<size_t> order;
    for (const Output& out : promise_.outputs) {
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
      promise_.targets.push_back(tensor++);
      promise_.types.push_back(hlo::intern({to_dtype(t.scalar_type()), t.sizes().vec()}));
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
      promise_.outputs.push_back({.kind = Output::kUndefined});
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
    promise_.types.push_back(hlo::intern({dtype, out.sizes}));
    promise_.outputs.push_back(std::move(out));
  }

  const Overload& overload_;
  const ops::Row& row_;
  OwnMeta own_meta_;
  c10::ArrayRef<c10::IValue> arguments_;
  Promise promise_;
};

}  // namespace

Promise promise(const Overload& overload, c10::ArrayRef<c10::IValue> arguments) {
  return Promiser(overload, arguments).run();
}

}  // namespace tpu::aten
