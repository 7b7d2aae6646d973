#include "aten/copy.h"

#include <ATen/EmptyTensor.h>

#include <cstring>

#include "aten/cell.h"
#include "aten/dtype.h"
#include "aten/engine.h"
#include "aten/errors.h"
#include "aten/growth.h"
#include "aten/record.h"
#include "aten/registration.h"
#include "runtime/device.h"

namespace tpu::aten {
namespace {

bool is_tpu(const at::Tensor& t) { return t.device().type() == at::kPrivateUse1; }

// --- Conjugate and negative views: a bit on the tensor, which kernels of copies get to see and must honour. ---

at::Tensor without_bits(at::Tensor t) {
  if (t.is_conj()) t = at::_conj(t);
  if (t.is_neg()) t = at::_neg_view(t);
  return t;
}

at::Tensor with_bits_of(at::Tensor t, const at::Tensor& like) {
  if (like.is_conj()) t = at::_conj(t);
  if (like.is_neg()) t = at::_neg_view(t);
  return t;
}

// What `dst` has to hold, its own bits aside, in order to show `src`.
at::Tensor contents_for(const at::Tensor& dst, const at::Tensor& src) {
  at::Tensor t = without_bits(src);
  if (src.is_conj() != dst.is_conj()) t = at::conj_physical(t);
  if (src.is_neg() != dst.is_neg()) t = at::neg(t);
  return t;
}

// --- Host to device ---

// Elements of a dense CPU tensor, whose memory lies in the order of `type`. `ours`: nobody else can write it, so the
// device may read it in place.
runtime::ValuePtr upload_dense(const at::Tensor& dense, const hlo::Type* type, bool ours) {
  runtime::Device& device = *check(runtime::Device::get());
  if (!ours) return check(device.upload(dense.const_data_ptr(), type, pjrt::HostBuffer::kCopyNow));
  auto* kept = new at::Tensor(dense);
  return check(device.upload(dense.const_data_ptr(), type, pjrt::HostBuffer::kZeroCopy, [kept] { delete kept; }));
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) { return a.storage().is_alias_of(b.storage()); }

void write_from_cpu(const at::Tensor& dst, const at::Tensor& src) {
  TORCH_CHECK_NOT_IMPLEMENTED(!src.is_meta(), "Cannot copy out of meta tensor; no data!");
  TORCH_CHECK(src.layout() == at::kStrided && !src.is_quantized(), "device tpu takes strided tensors, got layout ",
              src.layout(), " of ", src.scalar_type());
  const bool whole = dst.is_non_overlapping_and_dense() && dst.storage_offset() == 0 &&
                     dst.storage().nbytes() == static_cast<size_t>(dst.numel()) * dst.element_size();
  if (src.numel() == 1 && (dst.numel() > 1 || !whole)) {  // a number
    copy_on_device(dst, src.reshape({}).to(dst.scalar_type()), false);
    return;
  }
  if (!whole) {
    copy_on_device(dst, upload(src.to(dst.scalar_type())), false);
    return;
  }
  at::Tensor dense = src;
  if (src.scalar_type() != dst.scalar_type() || !src.sizes().equals(dst.sizes()) ||
      !src.strides().equals(dst.strides())) {
    dense = at::empty_strided(dst.sizes(), dst.strides(), dst.options().device(at::kCPU));
    dense.copy_(src);
  }
  const hlo::Type* type =
      natural_type(to_dtype(dst.scalar_type()), dst.sizes(), dst.strides(), 0, dst.storage().nbytes());
  Cell& cell = cell_of(*dst.unsafeGetTensorImpl());
  cell.value = upload_dense(dense, type, !shares_memory(dense, src));
  cell.type = type;
}

// --- Device to host ---

// Where the elements of a tensor with a value lie in it.
struct Place {
  runtime::ValuePtr value;
  hlo::Dims strides;
  int64_t offset, extent;  // bytes
};

Place place_of(const at::Tensor& tpu) {
  const at::TensorImpl& impl = *tpu.unsafeGetTensorImpl();
  Cell& cell = cell_of(impl);
  hlo::Dims strides = tpu.strides().vec();
  int64_t offset = tpu.storage_offset();
  if (cell.value->type != cell.type && !place(impl, cell, strides, offset)) {
    remove_padding(cell);
    strides = tpu.strides().vec();
    offset = tpu.storage_offset();
  }
  const auto item = static_cast<int64_t>(tpu.element_size());
  const auto extent = static_cast<int64_t>(at::detail::computeStorageNbytes(tpu.sizes(), strides, tpu.element_size()));
  return {cell.value, std::move(strides), offset * item, extent};
}

// The device's own memory there, once it is written; null where the host cannot read it.
const char* readable(const Place& place) {
  runtime::Device& device = *check(runtime::Device::get());
  if (!device.on_cpu() || place.offset + place.extent > place.value->type->bytes()) return nullptr;
  materialize(*place.value);
  return static_cast<const char*>(check(device.host_pointer(*place.value))) + place.offset;
}

// What `tpu` shows, as a CPU tensor: over the device's own memory where the host can read that, so that nothing is
// compiled or copied for a view; not to be written.
at::Tensor on_host(const at::Tensor& tpu) {
  const at::TensorImpl& impl = *tpu.unsafeGetTensorImpl();
  const auto options = tpu.options().device(at::kCPU);
  const Cell& cell = cell_of(impl);
  if (!cell.value || tpu.numel() == 0) return at::zeros(tpu.sizes(), options);
  const Place place = place_of(tpu);
  const runtime::ValuePtr base = place.value;
  if (const char* bytes = readable(place)) {
    return at::from_blob(const_cast<char*>(bytes), tpu.sizes(), place.strides, [base](void*) {}, options);
  }
  runtime::Device& device = *check(runtime::Device::get());
  const auto item = static_cast<int64_t>(tpu.element_size());
  // Most of a padded value is cut here: on the device, each size would be a program.
  if (base->type != cell.type && 2 * place.extent >= base->type->bytes()) {
    materialize(*base);
    const at::Tensor memory = at::empty({base->type->bytes() / item}, options);
    check(device.download(*base, memory.mutable_data_ptr()));
    return memory.as_strided(tpu.sizes(), place.strides, place.offset / item);
  }
  at::Tensor cpu = at::empty(tpu.sizes(), options);
  check(device.download(*ready_value(impl), cpu.mutable_data_ptr()));
  return cpu;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0) return dst;
  if (!is_tpu(dst)) {
    dst.copy_(with_bits_of(on_host(without_bits(self)), self));
    return dst;
  }
  const at::Tensor contents = contents_for(dst, self);
  const at::Tensor target = without_bits(dst);
  if (is_tpu(self)) {
    copy_on_device(target, contents, non_blocking);
  } else {
    write_from_cpu(target, contents);
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  if (!src.sizes().equals(self.sizes())) {
    const auto shape = at::infer_size(self.sizes(), src.sizes());  // throws where they do not match
    TORCH_CHECK(self.sizes().equals(shape), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
                at::IntArrayRef(shape));
  }
  copy_from(src, self, non_blocking);
  return self;
}

at::Scalar local_scalar_dense(const at::Tensor& self) { return at::_local_scalar_dense(on_host(self)); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

// As copy_, they see these bits themselves. PyTorch's fallbacks would call them again without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace

at::Tensor upload(const at::Tensor& cpu) {
  const at::Tensor dense = cpu.resolve_conj().resolve_neg().contiguous();
  const hlo::Type* type = hlo::intern({to_dtype(cpu.scalar_type()), dense.sizes().vec()});
  if (dense.numel() == 0) return make_tensor({}, type, cpu.scalar_type());
  return make_tensor(upload_dense(dense, type, !shares_memory(dense, cpu)), type, cpu.scalar_type());
}

at::Tensor download(const at::Tensor& tpu) {
  at::Tensor cpu = at::empty(tpu.sizes(), tpu.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
  return cpu.copy_(on_host(tpu));
}

at::Tensor download_dense(const at::Tensor& tpu) {
  constexpr size_t kFew = size_t{128} << 10;  // bytes that one thread copies; of more PyTorch has several copy
  const at::Tensor cpu = at::detail::empty_strided_cpu(tpu.sizes(), tpu.strides(), tpu.scalar_type());
  if (cell_of(*tpu.unsafeGetTensorImpl()).value && tpu.numel() != 0 && cpu.nbytes() <= kFew) {
    const Place place = place_of(tpu);
    const char* bytes = tpu.strides().equals(place.strides) ? readable(place) : nullptr;
    if (bytes != nullptr) {
      std::memcpy(cpu.mutable_data_ptr(), bytes, static_cast<size_t>(place.extent));
      return cpu;
    }
  }
  return cpu.copy_(on_host(tpu));
}

}  // namespace tpu::aten
