#include "aten/cell.h"

#include <ATen/EmptyTensor.h>

#include "aten/allocator.h"
#include "aten/dtype.h"
#include "aten/engine.h"
#include "aten/errors.h"
#include "aten/record.h"

namespace tpu::aten {
namespace {

at::Tensor wrap(c10::intrusive_ptr<at::StorageImpl> storage, at::ScalarType dtype) {
  return at::detail::make_tensor_base<at::TensorImpl>(c10::Storage(std::move(storage)),
                                                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                      c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace

c10::intrusive_ptr<at::StorageImpl> make_storage(size_t bytes, runtime::ValuePtr value, const hlo::Type* type) {
  auto* cell = new Cell{std::move(value), type};
  return c10::make_intrusive<at::StorageImpl>(at::StorageImpl::use_byte_size_t(), bytes, make_data_ptr(cell),
                                              allocator(), /*resizable=*/true);
}

at::Tensor make_tensor(runtime::ValuePtr value, const hlo::Type* type, at::ScalarType dtype) {
  at::Tensor t = wrap(make_storage(static_cast<size_t>(type->bytes()), std::move(value), type), dtype);
  if (type->dims.size() != 1 || type->dims[0] != 0) t.unsafeGetTensorImpl()->set_sizes_contiguous(type->dims);
  return t;
}

at::Tensor make_tensor(runtime::ValuePtr value, const hlo::Type* type, at::ScalarType dtype, at::IntArrayRef sizes,
                       at::IntArrayRef strides, size_t storage_bytes) {
  at::Tensor t = wrap(make_storage(storage_bytes, std::move(value), type), dtype);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

at::Tensor make_view(const at::Tensor& other, at::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides,
                     int64_t offset) {
  at::Tensor t = wrap(c10::intrusive_ptr<at::StorageImpl>::reclaim_copy(other.storage().unsafeGetStorageImpl()), dtype);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return t;
}

const hlo::Type* natural_type(DType dtype, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                              size_t storage_bytes) {
  const int64_t elements = static_cast<int64_t>(storage_bytes) / size_of(dtype);
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  if (offset == 0 && n == elements && n > 0) {
    std::vector<size_t> order;
    for (size_t d = 0; d < sizes.size(); ++d) order.push_back(d);
    // Unit dimensions stay where they are: their strides mean nothing.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return sizes[a] > 1 && sizes[b] > 1 && strides[a] > strides[b]; });
    int64_t expected = 1;
    bool dense = true;
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
      dense = dense && (sizes[*d] == 1 || strides[*d] == expected);
      expected *= sizes[*d];
    }
    if (dense) {
      hlo::Type type{dtype, {}};
      for (const size_t d : order) type.dims.push_back(sizes[d]);
      return hlo::intern(type);
    }
  }
  // Bytes that are no whole element are kept out of sight.
  return elements * size_of(dtype) == static_cast<int64_t>(storage_bytes)
             ? hlo::intern({dtype, {elements}})
             : hlo::intern({DType::kU8, {static_cast<int64_t>(storage_bytes)}});
}

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, std::optional<at::MemoryFormat> format) {
  refuse_fork();
  at::detail::check_size_nonnegative(sizes);
  const DType ours = to_dtype(dtype);
  const at::MemoryFormat layout = format.value_or(at::MemoryFormat::Contiguous);
  const size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype));
  at::Tensor t = wrap(make_storage(bytes, {}, nullptr), dtype);
  if (sizes.size() != 1 || sizes[0] != 0) t.unsafeGetTensorImpl()->generic_set_sizes_contiguous(sizes);
  if (layout != at::MemoryFormat::Contiguous) t.unsafeGetTensorImpl()->empty_tensor_restride(layout);
  cell_of(*t.unsafeGetTensorImpl()).type = natural_type(ours, t.sizes(), t.strides(), 0, bytes);
  return t;
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  refuse_fork();
  at::detail::check_size_nonnegative(sizes);
  const DType ours = to_dtype(dtype);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  return make_tensor({}, natural_type(ours, sizes, strides, 0, bytes), dtype, sizes, strides, bytes);
}

void resize_storage(at::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  if (storage.nbytes() == bytes) return;
  Cell& old = cell_of(storage);
  Cell* made = new Cell;
  if (old.value && bytes > 0) {
    if (old.value->type != old.type) remove_padding(old);
    made->type = hlo::intern({DType::kU8, {static_cast<int64_t>(bytes)}});
    const int64_t item = size_of(old.type->dtype);
    if (static_cast<int64_t>(bytes) % item == 0) {
      made->type = hlo::intern({old.type->dtype, {static_cast<int64_t>(bytes) / item}});
    }
    made->value = resized(old.value, made->type);
  }
  storage.set_data_ptr_noswap(make_data_ptr(made));
  storage.set_nbytes(bytes);
}

}  // namespace tpu::aten
