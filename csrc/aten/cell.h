// A Cell is what the StorageImpl of a tpu tensor owns: the value that its memory now holds. Writing to a tensor
// replaces the value; all tensors over the storage see it.
#pragma once

#include "aten/pch.h"
#include "hlo/type.h"
#include "runtime/value.h"

namespace tpu::aten {

struct Cell {
  runtime::ValuePtr value;  // null: the contents are undefined (fresh from empty)
  // What the memory is; null only while undefined. `value` has this type, or a larger one: then its elements have
  // padding behind them (hlo/padding.h), of which tensors see nothing.
  const hlo::Type* type = nullptr;
};

void delete_cell(void* cell);
// The cell behind an address of ours.
Cell& cell_at(const void* address);

// `t` must be a tpu tensor with storage.
inline Cell& cell_of(const at::StorageImpl& s) {
  const at::DataPtr& memory = const_cast<at::StorageImpl&>(s)._mutable_data_ptr_no_checks();
  if (memory.get_deleter() != &delete_cell) [[unlikely]]
    return cell_at(memory.get());
  return *static_cast<Cell*>(memory.get_context());
}
inline Cell& cell_of(const at::TensorImpl& t) { return cell_of(*t.unsafe_storage().unsafeGetStorageImpl()); }

// Storage of `bytes` bytes around a new cell.
c10::intrusive_ptr<at::StorageImpl> make_storage(size_t bytes, runtime::ValuePtr value, const hlo::Type* type);

// A contiguous tensor over a new storage.
at::Tensor make_tensor(runtime::ValuePtr value, const hlo::Type* type, at::ScalarType dtype);
// Any geometry; `type` of the value that fills the storage.
at::Tensor make_tensor(runtime::ValuePtr value, const hlo::Type* type, at::ScalarType dtype, at::IntArrayRef sizes,
                       at::IntArrayRef strides, size_t storage_bytes);
// A tensor of any geometry over the storage of another, which autograd does not see as its view.
at::Tensor make_view(const at::Tensor& other, at::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides,
                     int64_t offset);

// The type of value that suits a tensor of this geometry best as the sole owner of `storage_bytes`: its sizes in memory
// order where it is dense, else flat.
const hlo::Type* natural_type(DType dtype, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                              size_t storage_bytes);

// torch.empty and friends. Sizes are checked.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, std::optional<at::MemoryFormat> format);
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

// Grows or shrinks a storage, keeping what fits.
void resize_storage(at::StorageImpl& storage, size_t bytes);

}  // namespace tpu::aten
