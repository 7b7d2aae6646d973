#include "aten/foreach.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>

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
