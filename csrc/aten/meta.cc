#include "aten/meta.h"

#include <exception>

#include "aten/native_checks.h"

namespace tpu::aten {
namespace {

struct ToMeta {
  bool numbers;  // 0-d tensors of the CPU too, but for Python numbers, which all functions know
  std::map<at::TensorImpl*, at::Tensor> seen;

  at::Tensor operator()(const at::Tensor& t) {
    if (!t.defined()) return t;
    if (t.is_cpu() && (!numbers || t.unsafeGetTensorImpl()->is_wrapped_number())) return t;
    at::Tensor& meta = seen[t.unsafeGetTensorImpl()];
    if (!meta.defined()) {
      meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta));
    }
    return meta;
  }

  c10::IValue operator()(const c10::IValue& v) {
    if (v.isDevice()) return c10::Device(c10::kMeta);
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

// `import torch` puts functions in Python over many meta functions, and users would read words that no device has. The
// C++ ones of structured operators are still reached through the kernel that serves devices without one.
constexpr c10::DispatchKey kStructured = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;

}  // namespace

void append_tensors(const c10::IValue& v, std::vector<at::Tensor>& out) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) out.push_back(v.toTensor());
  } else if (v.isTensorList() || v.isOptionalTensorList()) {
    for (const c10::IValue& e : v.toListRef()) append_tensors(e, out);
  }
}

MetaResult run_meta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, bool numbers) {
  ToMeta to_meta{numbers, {}};
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
      op.callBoxedForDispatchKey(kStructured, stack);
    } catch (...) {
      // After the C++ function it runs one in Python, of the out= overload, and some of those refuse what is right.
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
