#include "aten/copy.h"

#include <ATen/ops/_to_copy_native.h>

#include "aten/cell.h"
#include "aten/dtype.h"
#include "aten/engine.h"
#include "aten/errors.h"
#include "aten/registration.h"
#include "runtime/device.h"

namespace tpu::aten {
namespace {

bool is_tpu(const at::Tensor& t) { return t.device().type() == at::kPrivateUse1; }

runtime::ValuePtr upload_dense(const at::Tensor& cpu, const hlo::Type* type) {
  return check(check(runtime::Device::get())->upload(cpu.const_data_ptr(), type, pjrt::HostBuffer::kCopyNow));
}

void write_from_cpu(const at::Tensor& dst, const at::Tensor& src) {
  const at::Tensor same = src.to(dst.scalar_type());
  Cell& cell = cell_of(*dst.unsafeGetTensorImpl());
  const bool whole = dst.is_contiguous() && dst.storage_offset() == 0 &&
                     dst.storage().nbytes() == static_cast<size_t>(dst.numel()) * dst.element_size();
  if (whole && dst.numel() > 0) {
    const at::Tensor dense = same.expand(dst.sizes()).contiguous().resolve_conj().resolve_neg();
    const hlo::Type* type = hlo::intern({to_dtype(dst.scalar_type()), dst.sizes().vec()});
    cell.value = upload_dense(dense, type);
    cell.type = type;
    return;
  }
  copy_on_device(dst, src.dim() == 0 ? same : upload(same), false);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (self.numel() == 0 && dst.numel() == 0) return dst;
  if (is_tpu(self) && is_tpu(dst)) {
    copy_on_device(dst, self, non_blocking);
  } else if (is_tpu(dst)) {
    write_from_cpu(dst, self);
  } else {
    dst.copy_(download(self));
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (!src.sizes().equals(self.sizes()))
    (void)at::infer_size(self.sizes(), src.sizes()), (void)src.expand(self.sizes());
  if (self.is_same(src)) return self;
  copy_from(src, self, non_blocking);
  return self;
}

at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool> pin, bool non_blocking,
                   std::optional<at::MemoryFormat> format) {
  const bool stays = is_tpu(self) && (!device || (device->type() == at::kPrivateUse1 && device->index() <= 0));
  if (stays && c10::layout_or_default(layout) == at::kStrided && !c10::pinned_memory_or_default(pin)) {
    return convert_on_device(self, dtype, format);
  }
  return at::native::_to_copy(self, dtype, layout, device, pin, non_blocking, format);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const at::Tensor cpu = download(self);
  return at::_local_scalar_dense(cpu);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_to_copy", TORCH_FN(to_copy));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

}  // namespace

at::Tensor upload(const at::Tensor& cpu) {
  const at::Tensor dense = cpu.resolve_conj().resolve_neg().contiguous();
  const hlo::Type* type = hlo::intern({to_dtype(cpu.scalar_type()), dense.sizes().vec()});
  if (dense.numel() == 0) return make_tensor({}, type, cpu.scalar_type());
  return make_tensor(upload_dense(dense, type), type, cpu.scalar_type());
}

at::Tensor download(const at::Tensor& tpu) {
  at::Tensor cpu = at::empty(tpu.sizes(), tpu.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
  if (tpu.numel() == 0) return cpu;
  const runtime::ValuePtr value = ready_value(*tpu.unsafeGetTensorImpl());
  if (!value) return cpu.zero_();
  check(check(runtime::Device::get())->download(*value, cpu.mutable_data_ptr()));
  return cpu;
}

}  // namespace tpu::aten
