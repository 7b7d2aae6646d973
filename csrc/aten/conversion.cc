// Copies that stay on the device as one call each, and plain reads; the others are PyTorch's composites.

#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/clone_native.h>

#include "aten/copy.h"
#include "aten/registration.h"

namespace tpu::aten {
namespace {

bool is_tpu(const at::Tensor& t) { return t.device().type() == at::kPrivateUse1; }

// Conjugate and negative views reach these kernels as they are.
bool is_lazy(const at::Tensor& t) { return t.is_conj() || t.is_neg(); }

// `x.cpu()`, without the empty tensor, the copy into it and their dispatches.
bool is_plain_read(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Device> device,
                   std::optional<at::MemoryFormat> format) {
  return device && device->is_cpu() && (!dtype || *dtype == self.scalar_type()) &&
         format.value_or(at::MemoryFormat::Preserve) == at::MemoryFormat::Preserve &&
         self.is_non_overlapping_and_dense();
}

at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool> pin, bool non_blocking,
                   std::optional<at::MemoryFormat> format) {
  const bool plain = is_tpu(self) && !is_lazy(self) && c10::layout_or_default(layout) == at::kStrided &&
                     !c10::pinned_memory_or_default(pin);
  if (plain && !non_blocking && is_plain_read(self, dtype, device, format)) return download_dense(self);
  const bool stays = plain && (!device || (device->type() == at::kPrivateUse1 && device->index() <= 0));
  if (!stays) return at::native::_to_copy(self, dtype, layout, device, pin, non_blocking, format);
  torch::jit::Stack stack{self, dtype, c10::IValue(), c10::IValue(), c10::IValue(), false, format};
  run_wrapped("_to_copy", &stack);
  return stack[0].toTensor();
}

at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  if (is_lazy(self)) return at::native::clone(self, format);
  torch::jit::Stack stack{self, format};
  run_wrapped("clone", &stack);
  return stack[0].toTensor();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_to_copy", TORCH_FN(to_copy));
  m.impl("clone", TORCH_FN(clone));
}

}  // namespace
}  // namespace tpu::aten
