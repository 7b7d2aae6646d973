#include "aten/registration.h"

#include <ATen/native/Resize.h>

#include <map>
#include <set>

#include "aten/decompose.h"
#include "aten/distributions.h"
#include "aten/dynamic.h"
#include "aten/engine.h"
#include "aten/fallback.h"
#include "aten/foreach.h"
#include "aten/linalg.h"
#include "aten/meta.h"
#include "aten/native_checks.h"
#include "aten/unboxed.h"

namespace tpu::aten {
namespace {

struct Names {
  const char* functional;
  const char* in_place;
  const char* out;
};

// PyTorch's own grouping of overloads, written by tools/codegen from the operator list that ships with PyTorch.
constexpr Names kOverloads[] = {
#include "overloads.inc"
};

// One boxed kernel for all; each overload is a functor that knows its row.
struct Boxed final : c10::OperatorKernel {
  explicit Boxed(const Overload* o) : overload(o) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    run(*overload, stack);
  }
  const Overload* overload;
};

// Rows of PyTorch's operators are named without their namespace.
bool is_pytorchs(const std::string& name) { return name.find("::") == std::string::npos; }

std::optional<c10::OperatorHandle> find_schema(const std::string& name) {
  const size_t dot = name.find('.');
  const char* const space = is_pytorchs(name) ? "aten::" : "";
  return c10::Dispatcher::singleton().findSchema(
      {space + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
}

const Overload* make(const ops::Row& row, const std::string& name, Overload::Kind kind) {
  auto handle = find_schema(name);
  if (!handle) return nullptr;
  return new Overload(&row, *handle, kind);  // lives as long as the registration: for ever
}

// Have kernels of their own, which end in the table's where all is on the device.
std::map<std::string, const Overload*, std::less<>> wrapped = {
    {"copy_", nullptr}, {"_to_copy", nullptr}, {"clone", nullptr}};

// A kernel would take away the derivative that a composite has from its parts; not where it has one of its own, or the
// CPU has a kernel too.
bool is_composite(const Overload& overload) {
  const auto has = [&](c10::DispatchKey key) { return overload.handle.hasKernelForDispatchKey(key); };
  return has(c10::DispatchKey::CompositeImplicitAutograd) && !has(c10::DispatchKey::Autograd) &&
         !has(c10::DispatchKey::CPU);
}

// Overloads with a step of their own before the engine.
struct Special final : c10::OperatorKernel {
  using Run = void (*)(const Overload&, torch::jit::Stack*);
  Special(const Overload* o, Run r) : overload(o), own(r) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    own(*overload, stack);
  }
  const Overload* overload;
  Run own;
};

const std::map<std::string, Special::Run> kSpecial = {
    {"_linalg_det", &run_determinant},
    {"_linalg_det.result", &run_determinant},
    {"_linalg_eigvals", &run_eigen},
    {"_linalg_slogdet", &run_determinant},
    {"_linalg_slogdet.sign", &run_determinant},
    {"linalg_eig", &run_eigen},
    {"linalg_eig.out", &run_eigen},
    {"_index_put_impl", &run_index_put},
    {"_index_put_impl.out", &run_index_put},
    {"_index_put_impl_", &run_index_put},
    {"_unsafe_index.Tensor", &run_index},
    {"_unsafe_index.Tensor_out", &run_index},
    {"_unsafe_index_put", &run_index_put},
    {"_unsafe_index_put.out", &run_index_put},
    {"index.Tensor", &run_index},
    {"index.Tensor_out", &run_index},
    {"index_put", &run_index_put},
    {"index_put.out", &run_index_put},
    {"index_put_", &run_index_put},
    {"random_", &run_distribution},
    {"random_.from", &run_distribution},
    {"random_.to", &run_distribution},
    {"uniform_", &run_distribution},
    {"normal_", &run_distribution},
    {"normal.Tensor_float", &run_distribution},
    {"normal.Tensor_float_out", &run_distribution},
    {"log_normal_", &run_distribution},
    {"geometric_", &run_distribution},
    {"exponential_", &run_distribution},
    {"cauchy_", &run_distribution},
    {"bernoulli_.float", &run_distribution},
    {"multinomial", &run_distribution},
    {"multinomial.out", &run_distribution},
};

}  // namespace

void register_operators() {
  // Never destroyed: threads may call operators while the process ends.
  const auto library = [](const char* space) {
    return new torch::Library(torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  };
  auto& m = *library("aten");
  auto& collectives = *library("tpu_dist");
  std::set<std::string> done;
  const auto register_kernel = [&](const std::string& name, const Overload* overload) {
    auto& space = is_pytorchs(name) ? m : collectives;
    auto kernel = unboxed_kernel(*overload);
    space.impl(name.c_str(), kernel ? std::move(*kernel)
                                    : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Boxed>(overload)));
  };
  const auto add = [&](const ops::Row& row, const std::string& name, Overload::Kind kind) {
    if (name.empty() || !done.insert(name).second) return;
    const Overload* overload = make(row, name, kind);
    if (overload == nullptr) return;
    if (is_composite(*overload)) return;
    if (const auto own = wrapped.find(name); own != wrapped.end()) {
      own->second = overload;
    } else if (const auto special = kSpecial.find(name); special != kSpecial.end()) {
      m.impl(name.c_str(),
             torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Special>(overload, special->second)));
    } else {
      register_kernel(name, overload);
    }
  };
  const auto add_each = [&](const Names& names) {
    const ops::Row* row = row_of_each(names.functional);
    if (row == nullptr) return;
    const std::pair<const char*, Overload::Kind> kinds[] = {
        {names.functional, Overload::kFunctional}, {names.in_place, Overload::kInPlace}, {names.out, Overload::kOut}};
    for (const auto& [name, kind] : kinds) {
      if (*name == '\0') continue;
      if (const Overload* overload = make_each(*row, find_schema(name).value(), kind)) register_kernel(name, overload);
    }
  };
  for (const Names& names : kOverloads) {
    const ops::Row* row = ops::table().find(names.functional);
    if (row == nullptr) continue;
    add(*row, names.functional, Overload::kFunctional);
    add(*row, names.in_place, Overload::kInPlace);
    add(*row, names.out, Overload::kOut);
  }
  for (const Names& names : kOverloads) add_each(names);
  for (const char* name : {"_foreach_pow.ScalarAndTensor"}) add_each({name, "", ""});  // stands in no group
  // PyTorch's own kernels of structured operators without a row would make three calls of one.
  for (const Names& names : kOverloads) {
    for (const std::string name : {names.functional, names.in_place}) {
      if (name.empty() || ops::table().find(names.functional) != nullptr) continue;
      const auto op = find_schema(name);
      if (name == "new_empty_strided") continue;  // only calls empty_strided
      if (op && !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) &&
          op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
        m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
      }
    }
  }
  // Rows of overloads that stand in no group.
  for (const auto& [name, row] : ops::table().rows()) add(row, name, Overload::kFunctional);
}

bool run_functional(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto* const groups = [] {
    auto* map = new std::map<std::string, std::string>;  // in-place and out= names to functional ones
    for (const Names& names : kOverloads) {
      for (const char* name : {names.in_place, names.out}) {
        if (*name != '\0') map->emplace(name, names.functional);
      }
    }
    return map;
  }();
  const auto group = groups->find(toString(op.operator_name()).substr(6));  // without aten::
  if (group == groups->end()) return false;
  const auto functional = find_schema(group->second);
  if (!functional) return false;
  const size_t n = op.schema().arguments().size(), inputs = functional->schema().arguments().size();
  const std::vector<c10::IValue> arguments = torch::jit::last(*stack, n).vec();
  std::vector<at::Tensor> targets;
  for (size_t i = 0; i < n; ++i) {
    const auto* alias = op.schema().arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) append_tensors(arguments[i], targets);
  }
  torch::jit::Stack inner(arguments.begin(), arguments.begin() + static_cast<ptrdiff_t>(std::min(inputs, n)));
  if (!run_decomposed(*functional, &inner)) {
    if (!functional->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return false;
    functional->callBoxed(&inner);
  }
  std::vector<at::Tensor> results;
  for (const c10::IValue& v : inner) append_tensors(v, results);
  if (results.size() != targets.size() || op.schema().returns().size() > targets.size()) return false;
  for (size_t i = 0; i < targets.size(); ++i) {
    check_castable(results[i], targets[i]);
    if (n > inputs && at::native::resize_output(targets[i], results[i].sizes())) {
      targets[i].unsafeGetTensorImpl()->set_sizes_and_strides(results[i].sizes(), results[i].strides());
    }
    targets[i].copy_(results[i]);
  }
  torch::jit::drop(*stack, n);
  for (size_t i = 0; i < op.schema().returns().size(); ++i) {
    if (op.schema().returns()[i].type()->kind() == c10::TypeKind::ListType) {
      stack->emplace_back(c10::List<at::Tensor>(c10::ArrayRef<at::Tensor>(targets)));
    } else {
      stack->emplace_back(targets[i]);
    }
  }
  return true;
}

void run_wrapped(const char* name, torch::jit::Stack* stack) { run(*wrapped.find(name)->second, stack); }

void copy_on_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  torch::jit::Stack stack{dst, src, non_blocking};
  run_wrapped("copy_", &stack);
}

}  // namespace tpu::aten
