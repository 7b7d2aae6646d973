#include "aten/meta.h"

#include <exception>

#include "aten/native_checks.h"

namespace tpu::aten {
namespace {

struct ToMeta {
  c10::DeviceType device;
  bool numbers;  // 0-d tensors of the CPU too, but for Python numbers, which all functions know
  std::map<at::TensorImpl*, at::Tensor> seen;

  at::Tensor operator()(const at::Tensor& t) {
    if (!t.defined()) return t;
    if (t.is_cpu() && (!numbers || t.unsafeGetTensorImpl()->is_wrapped_number())) return t;
    at::Tensor& meta = seen[t.unsafeGetTensorImpl()];
    if (!meta.defined()) {
      meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(device));
    }
    return meta;
  }

  c10::IValue operator()(const c10::IValue& v) {
    if (v.isDevice()) return c10::Device(device);
    if (v.isGenerator()) return {};
    const auto to_meta = [&](const at::Tensor& t) { return (*this)(t); };
    return map_tensors(v, to_meta, to_meta);
  }
};

// Of an operator that makes nothing new its arguments say all; fills in the returns.
bool returns_only_arguments(const c10::FunctionSchema& schema, MetaResult& result) {
  for (const c10::Argument& r : schema.returns()) {
    if (r.alias_info() == nullptr || !r.alias_info()->isWrite()) return false;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias == nullptr || alias->beforeSets() != r.alias_info()->beforeSets()) continue;
      result.returns.push_back(result.arguments[i]);
    }
  }
  return true;
}

// Every operator has PyTorch's fallback for the Meta key, which only throws.
bool has_meta(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  for (const DispatchKey key :
       {DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd, DispatchKey::CompositeExplicitAutogradNonFunctional,
        DispatchKey::CompositeImplicitAutograd}) {
    if (op.hasKernelForDispatchKey(key)) return true;
  }
  return false;
}

// `import torch` puts functions in Python over many meta functions: users would read words that no device has, and the
// first of them to run imports 800 modules. The C++ ones of structured operators are still reached through the kernel
// that serves devices without one. It goes on to the out= overload, so what it is given are tensors of this device, of
// which nothing is ever written: that is our own kernel then, and does nothing.
constexpr c10::DispatchKey kStructured = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;

MetaResult run_structured(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, bool numbers) {
  struct Inside {
    const bool before = std::exchange(inside_meta, true);
    ~Inside() { inside_meta = before; }
  } inside;
  ToMeta stand_in{c10::kPrivateUse1, numbers, {}};
  MetaResult result;
  for (const c10::IValue& v : arguments) result.arguments.push_back(stand_in(v));
  torch::jit::Stack stack = result.arguments;
  op.callBoxedForDispatchKey(kStructured, stack);
  result.returns = std::move(stack);
  return result;
}

}  // namespace

void append_tensors(const c10::IValue& v, std::vector<at::Tensor>& out) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) out.push_back(v.toTensor());
  } else if (v.isTensorList() || v.isOptionalTensorList()) {
    for (const c10::IValue& e : v.toListRef()) append_tensors(e, out);
  }
}

MetaResult run_meta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, bool numbers) {
  ToMeta to_meta{c10::kMeta, numbers, {}};
  MetaResult result;
  for (const c10::IValue& v : arguments) result.arguments.push_back(to_meta(v));
  if (!has_meta(op) && returns_only_arguments(op.schema(), result)) {
    return result;
  }
  torch::jit::Stack stack = result.arguments;
  const at::AutoDispatchBelowADInplaceOrView guard;
  check_natively(op, stack);
  const auto from_python = [&] { op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack); };
  if (!op.hasKernelForDispatchKey(kStructured)) {
    from_python();
  } else {
    try {
      return run_structured(op, arguments, numbers);
    } catch (...) {
      const std::exception_ptr first = std::current_exception();
      stack = result.arguments;
      try {
        from_python();
      } catch (...) {
        std::rethrow_exception(first);
      }
    }
  }
  result.returns = std::move(stack);
  return result;
}

}  // namespace tpu::aten
