#include "aten/foreach.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>

#include <bit>
#include <map>

namespace tpu::aten {
namespace {

const c10::FunctionSchema& schema_of(const ops::Row& row) {
  const size_t dot = row.name.find('.');
  return c10::Dispatcher::singleton()
      .findSchema({"aten::" + row.name.substr(0, dot), dot == std::string::npos ? "" : row.name.substr(dot + 1)})
      .value()
      .schema();
}

bool is_list(const c10::Argument& argument) { return argument.type()->kind() == c10::TypeKind::ListType; }

bool is_tensor(const c10::Argument& argument) {
  const auto& type = argument.type();
  return type->kind() == c10::TypeKind::TensorType ||
         (is_list(argument) && type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::TensorType);
}

bool is_number(const c10::Argument& argument) {
  const c10::TypePtr type =
      is_list(argument) ? argument.real_type()->expectRef<c10::ListType>().getElementType() : argument.real_type();
  return type->kind() == c10::TypeKind::NumberType;
}

bool is_scalar(ops::Arg kind) { return kind == ops::Arg::kScalar || kind == ops::Arg::kFactor; }

// How an argument of the list overload is read, given what the row takes in its place.
std::optional<ops::Arg> kind_of(const c10::Argument& argument, ops::Arg row) {
  const bool takes_tensor = row == ops::Arg::kTensor || row == ops::Arg::kOptionalTensor || row == ops::Arg::kLike;
  if (is_tensor(argument)) {
    if (!takes_tensor) return std::nullopt;
    return is_list(argument) ? ops::Arg::kTensors : ops::Arg::kTensor;
  }
  if (is_number(argument)) {
    if (is_scalar(row) && !is_list(argument)) return row;
    if (is_scalar(row) || takes_tensor) return ops::Arg::kNumbers;
    return row == ops::Arg::kStatic ? std::optional(row) : std::nullopt;
  }
  return takes_tensor ? std::nullopt : std::optional(row);
}

}  // namespace

const ops::Row* row_of_each(const std::string& functional) {
  constexpr std::string_view kPrefix = "_foreach_";
  if (!functional.starts_with(kPrefix)) return nullptr;
  const size_t dot = functional.find('.');
  std::string op = functional.substr(kPrefix.size(), dot - kPrefix.size());
  const std::string overload = dot == std::string::npos ? "" : functional.substr(dot + 1);
  if (op == "norm") op = "linalg_vector_norm";
  if (op == "powsum") return nullptr;
  // The names that the overloads of ordinary operators have.
  static const auto* const suffixes = new std::map<std::string, std::vector<std::string>>{
      {"", {""}},
      {"List", {".Tensor", ".Tensor_Tensor", ""}},
      {"Tensor", {".Tensor", ""}},
      {"Scalar", {".Tensor_Scalar", ".Scalar", "", ".Tensor"}},
      {"ScalarList", {".Tensor_Scalar", ".Scalar", "", ".Tensor"}},
      {"ScalarAndTensor", {".Scalar"}},
  };
  const auto found = suffixes->find(overload);
  if (found == suffixes->end()) return nullptr;
  for (const std::string& suffix : found->second) {
    if (const ops::Row* row = ops::table().find(op + suffix)) return row;
  }
  return nullptr;
}

const Overload* make_each(const ops::Row& row, const c10::OperatorHandle& handle, Overload::Kind kind) {
  const auto& theirs = schema_of(row).arguments();
  const auto& ours = handle.schema().arguments();
  std::vector<bool> taken(theirs.size());
  std::vector<ArgSpec> args;
  size_t row_args = 0;
  bool any_list = false;
  for (const c10::Argument& argument : ours) {
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (argument.is_out()) {
      args.push_back({ops::Arg::kTensors, written, true, -1});
      continue;
    }
    // The argument of the same name, else the first that is left.
    size_t at = 0;
    while (at < theirs.size() && (taken[at] || theirs[at].name() != argument.name())) ++at;
    if (at == theirs.size()) at = static_cast<size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
    if (at == theirs.size()) return nullptr;
    taken[at] = true;
    const auto how = kind_of(argument, row.args[at]);
    if (!how) return nullptr;
    any_list = any_list || *how == ops::Arg::kTensors;
    args.push_back({*how, written, is_list(argument), static_cast<int16_t>(at)});
    ++row_args;
  }
  for (size_t i = 0; i < theirs.size(); ++i) {
    if (!taken[i] && !theirs[i].default_value()) return nullptr;
  }
  if (!any_list || row.draws) return nullptr;
  auto* overload = new Overload(&row, handle, kind, std::move(args), row_args);
  overload->each = true;
  return overload;
}

std::vector<Part> split_each(const Overload& overload, c10::ArrayRef<c10::IValue> arguments) {
  size_t n = 0;
  for (size_t i = 0; i < overload.row_args; ++i) {
    if (overload.args[i].kind == ops::Arg::kTensors) n = arguments[i].toListRef().size();
  }
  std::vector<Part> parts(n);
  PartArgument::At next;
  std::vector<bool> given(overload.row->args.size());
  for (size_t i = 0; i < overload.row_args; ++i) {
    const ArgSpec& spec = overload.args[i];
    const ops::Arg takes = overload.row->args[static_cast<size_t>(spec.position)];
    given[static_cast<size_t>(spec.position)] = true;
    const auto one = [&](const c10::IValue& v) -> PartArgument {
      PartArgument part{v, takes, static_cast<size_t>(spec.position), next};
      switch (spec.kind) {
        case ops::Arg::kTensor:
        case ops::Arg::kTensors: ++(v.toTensor().is_cpu() ? next.number : next.tensor); break;
        case ops::Arg::kNumbers:
          ++next.number;
          if (is_scalar(takes)) {
            part.kind = spec.kind;
          } else {
            part.value = at::native::wrapped_scalar_tensor(v.toScalar());
          }
          break;
        case ops::Arg::kScalar: ++next.number; break;
        case ops::Arg::kFactor: next.number += !NumberArg::of(v.toScalar()).is_identity(); break;
        default: break;
      }
      return part;
    };
    if (spec.list) {
      const auto list = arguments[i].toListRef();
      for (size_t k = 0; k < n; ++k) parts[k].push_back(one(list[k]));
    } else {
      const PartArgument shared = one(arguments[i]);
      for (Part& part : parts) part.push_back(shared);
    }
  }
  const auto& theirs = schema_of(*overload.row).arguments();
  for (Part& part : parts) {
    for (size_t at = 0; at < given.size(); ++at) {
      if (!given[at]) part.push_back({*theirs[at].default_value(), overload.row->args[at], at, PartArgument::At{}});
    }
    std::sort(part.begin(), part.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
  }
  return parts;
}

namespace {

// What a meta function can tell apart in an element of a list.
void describe(const c10::IValue& v, std::vector<int64_t>& out) {
  if (!v.isTensor()) {  // an exponent may be refused for its value
    const at::Scalar number = v.toScalar();
    const c10::complex<double> value = number.to<c10::complex<double>>();
    out.insert(out.end(), {static_cast<int64_t>(number.type()), std::bit_cast<int64_t>(value.real()),
                           std::bit_cast<int64_t>(value.imag())});
    return;
  }
  const at::Tensor& t = v.toTensor();
  if (!t.defined()) return out.push_back(-1);
  out.insert(out.end(), {static_cast<int64_t>(t.scalar_type()), static_cast<int64_t>(t.device().type()), t.dim()});
  out.insert(out.end(), t.sizes().begin(), t.sizes().end());
  out.insert(out.end(), t.strides().begin(), t.strides().end());
}

// The elements of `list` at `places`.
c10::IValue taken(const c10::IValue& list, const std::vector<size_t>& places) {
  const auto from = list.toListRef();
  c10::impl::GenericList out(list.type()->expectRef<c10::ListType>().getElementType());
  for (const size_t i : places) out.push_back(from[i]);
  return out;
}

}  // namespace

MetaResult run_meta_of_each(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, bool numbers) {
  std::optional<size_t> n;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!overload.args[i].list) continue;
    const size_t length = arguments[i].toListRef().size();
    if (n.value_or(length) != length) return run_meta(overload.handle, arguments, numbers);  // which says so
    n = length;
  }
  std::map<std::vector<int64_t>, size_t> kinds;
  std::vector<size_t> first, kind_of;  // the first element of each kind, the kind of each element
  for (size_t k = 0; k < n.value_or(0); ++k) {
    std::vector<int64_t> kind;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (overload.args[i].list) describe(arguments[i].toListRef()[k], kind);
    }
    const auto [at, is_new] = kinds.emplace(std::move(kind), first.size());
    if (is_new) first.push_back(k);
    kind_of.push_back(at->second);
  }
  std::vector<c10::IValue> fewer = arguments.vec();
  for (size_t i = 0; i < fewer.size(); ++i) {
    if (overload.args[i].list) fewer[i] = taken(fewer[i], first);
  }
  MetaResult result = run_meta(overload.handle, fewer, numbers);
  for (size_t i = 0; i < fewer.size(); ++i) {
    if (overload.args[i].list) result.arguments[i] = taken(result.arguments[i], kind_of);
  }
  for (c10::IValue& v : result.returns) {
    if (v.isTensorList()) v = taken(v, kind_of);
  }
  return result;
}

namespace {

// A list of numbers that comes as a CPU tensor.
std::vector<at::Scalar> numbers(at::TensorList self, const at::Tensor& scalars) {
  return at::native::convert_tensor_to_scalar_list(scalars, static_cast<int64_t>(self.size()));
}
std::vector<at::Tensor> addcmul(at::TensorList self, at::TensorList a, at::TensorList b, const at::Tensor& scalars) {
  return at::_foreach_addcmul(self, a, b, numbers(self, scalars));
}
void addcmul_(at::TensorList self, at::TensorList a, at::TensorList b, const at::Tensor& scalars) {
  at::_foreach_addcmul_(self, a, b, numbers(self, scalars));
}
std::vector<at::Tensor> addcdiv(at::TensorList self, at::TensorList a, at::TensorList b, const at::Tensor& scalars) {
  return at::_foreach_addcdiv(self, a, b, numbers(self, scalars));
}
void addcdiv_(at::TensorList self, at::TensorList a, at::TensorList b, const at::Tensor& scalars) {
  at::_foreach_addcdiv_(self, a, b, numbers(self, scalars));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_foreach_addcmul.Tensor", TORCH_FN(addcmul));
  m.impl("_foreach_addcmul_.Tensor", TORCH_FN(addcmul_));
  m.impl("_foreach_addcdiv.Tensor", TORCH_FN(addcdiv));
  m.impl("_foreach_addcdiv_.Tensor", TORCH_FN(addcdiv_));
}

}  // namespace
}  // namespace tpu::aten
