#include "aten/registration.h"

#include <set>

#include "aten/dynamic.h"
#include "aten/engine.h"

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
struct Kernel final : c10::OperatorKernel {
  explicit Kernel(const Overload* o) : overload(o) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    run(*overload, stack);
  }
  const Overload* overload;
};

const Overload* make(const ops::Row& row, const std::string& name, Overload::Kind kind) {
  const size_t dot = name.find('.');
  auto handle = c10::Dispatcher::singleton().findSchema(
      {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  if (!handle) return nullptr;
  return new Overload(&row, *handle, kind);  // lives as long as the registration: for ever
}

const Overload* copy_overload = nullptr;

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
    {"_index_put_impl", &run_index_put},       {"_index_put_impl.out", &run_index_put},
    {"_index_put_impl_", &run_index_put},      {"_unsafe_index.Tensor", &run_index},
    {"_unsafe_index.Tensor_out", &run_index},  {"_unsafe_index_put", &run_index_put},
    {"_unsafe_index_put.out", &run_index_put}, {"index.Tensor", &run_index},
    {"index.Tensor_out", &run_index},          {"index_put", &run_index_put},
    {"index_put.out", &run_index_put},         {"index_put_", &run_index_put},
};

// Has kernels of its own beside the table's.
const std::set<std::string> kOwn = {"copy_"};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  std::set<std::string> done;
  const auto add = [&](const ops::Row& row, const std::string& name, Overload::Kind kind) {
    if (name.empty() || !done.insert(name).second) return;
    const Overload* overload = make(row, name, kind);
    if (overload == nullptr) return;
    if (name == "copy_") copy_overload = overload;
    if (kOwn.contains(name)) return;
    const auto special = kSpecial.find(name);
    if (special != kSpecial.end()) {
      m.impl(name.c_str(),
             torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Special>(overload, special->second)));
    } else {
      m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(overload)));
    }
  };
  for (const Names& names : kOverloads) {
    const ops::Row* row = ops::table().find(names.functional);
    if (row == nullptr) continue;
    add(*row, names.functional, Overload::kFunctional);
    add(*row, names.in_place, Overload::kInPlace);
    add(*row, names.out, Overload::kOut);
  }
  // Rows of overloads that stand in no group.
  for (const auto& [name, row] : ops::table().rows()) add(row, name, Overload::kFunctional);
}

}  // namespace

void copy_on_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  torch::jit::Stack stack{dst, src, non_blocking};
  run(*copy_overload, &stack);
}

}  // namespace tpu::aten
