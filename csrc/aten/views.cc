// The ten or so view operators that need kernels: they only make metadata. PyTorch's composites stand on them.

#include <ATen/native/Resize.h>
#include <ATen/native/TensorShape.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "aten/cell.h"

namespace tpu::aten {
namespace {

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  at::TensorImpl* impl = self.unsafeGetTensorImpl();
  TORCH_CHECK(format.value_or(at::MemoryFormat::Contiguous) != at::MemoryFormat::Preserve, "Unsupported memory format ",
              *format);
  if (!self.sizes().equals(size)) {
    impl->generic_set_sizes_contiguous(size);
    const size_t bytes = at::detail::computeStorageNbytesContiguous(size, self.element_size(),
                                                                    static_cast<size_t>(self.storage_offset()));
    at::StorageImpl& storage = *self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    if (self.numel() > 0 && bytes > storage.nbytes()) resize_storage(storage, bytes);
  }
  if (format) impl->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                               at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  at::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  const bool contiguous = stride.data() == nullptr;
  if (contiguous) {
    impl->generic_set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride);
  }
  const size_t bytes =
      at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.element_size(), static_cast<size_t>(offset));
  at::StorageImpl& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  if (self.numel() > 0 && bytes > storage.nbytes()) resize_storage(storage, bytes);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const int64_t n = static_cast<int64_t>(source.nbytes() / self.element_size());
  return set_storage_offset(self, std::move(source), 0, {n}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  return set_storage_offset(self, c10::Storage(make_storage(0, {}, nullptr)), 0, {0}, {});
}

void check_device(std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin) {
  TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided, "device tpu has strided tensors only, got layout ",
              c10::layout_or_default(layout));
  TORCH_CHECK(!c10::pinned_memory_or_default(pin), "Only dense CPU tensors can be pinned");
  TORCH_CHECK(!device || device->index() <= 0, "device tpu:", static_cast<int>(device->index()),
              " does not exist: there is one device a process, tpu:0");
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  check_device(layout, device, pin);
  return empty(size, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided_(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                          std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin) {
  check_device(layout, device, pin);
  return empty_strided(size, stride, c10::dtype_or_default(dtype));
}

// No view, but what one writes to: a copy, written through the geometry.
at::Tensor as_strided_scatter(const at::Tensor& self, const at::Tensor& src, at::IntArrayRef size,
                              at::IntArrayRef stride, std::optional<int64_t> offset) {
  at::Tensor copy = at::native::clone_preserve_strides(self);
  copy.as_strided(size, stride, offset).copy_(src);
  return copy;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided_));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("as_strided_scatter", TORCH_FN(as_strided_scatter));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
}

}  // namespace
}  // namespace tpu::aten
