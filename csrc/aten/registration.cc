#include "aten/registration.h"

#include <map>
#include <set>

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

// Have kernels of their own, which end in the table's where all is on the device.
std::map<std::string, const Overload*> wrapped = {{"copy_", nullptr}, {"_to_copy", nullptr}};

// A kernel would take away the derivative that a composite has from its parts.
bool is_composite(const Overload& overload) {
  return overload.handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  std::set<std::string> done;
  const auto add = [&](const ops::Row& row, const std::string& name, Overload::Kind kind) {
    if (name.empty() || !done.insert(name).second) return;
    const Overload* overload = make(row, name, kind);
    if (overload == nullptr) return;
    if (is_composite(*overload)) return;
    if (const auto own = wrapped.find(name); own != wrapped.end()) {
      own->second = overload;
      return;
    }
    m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(overload)));
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
  run(*wrapped["copy_"], &stack);
}

at::Tensor convert_on_device(const at::Tensor& self, std::optional<at::ScalarType> dtype,
                             std::optional<at::MemoryFormat> format) {
  torch::jit::Stack stack{self, dtype, c10::IValue(), c10::IValue(), c10::IValue(), false, format};
  run(*wrapped["_to_copy"], &stack);
  return stack[0].toTensor();
}

}  // namespace tpu::aten
