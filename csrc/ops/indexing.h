// Reading and writing at positions that tensors hold: the forms of gather and scatter that the lowerings share.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// A dimension as PyTorch counts it: from the end where negative; a tensor without dims has one.
inline int64_t axis(int64_t dim, int64_t rank) { return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim; }

// Positions within `size` in the narrowest integers that XLA indexes with well; counted from the end where negative.
Value positions(Builder& b, Value index, int64_t size);
Value positions_wrapping(Builder& b, Value index, int64_t size);

// Slices of x along dim: result has index's elements in dim's place. `index` has one dimension.
Value take_slices(Builder& b, Value x, Value index, int64_t dim);
// Elements of x along dim: `index` has x's rank, and other dims no larger than x's.
Value take_along(Builder& b, Value x, Value index, int64_t dim);

// The writes that mirror them.
Value put_slices(Builder& b, Value x, Value index, Value updates, int64_t dim, const Builder::Body& body);
Value put_along(Builder& b, Value x, Value index, Value updates, int64_t dim, const Builder::Body& body);

// Bodies for scatters: of (old, new).
Builder::Body replace();
Builder::Body combine(Builder& b, hlo::Reduce how);

// PyTorch's reductions at positions: "sum" or "add", "prod" or "multiply", "mean", "amax", "amin". `put` writes
// (target, updates, body) at the positions; without include_self what stood there does not count.
Value reduce_at(Builder& b, Value x, Value updates, const std::string& how, bool include_self,
                const std::function<Value(Value, Value, const Builder::Body&)>& put);

// x[..., index, ...]: several index tensors at some dims of x, as in PyTorch's advanced indexing.
struct Lookup {
  Dims dims;         // of x that are indexed
  Dims batch;        // to which the index tensors broadcast
  Dims result;       // of what is read
  Dims offset;       // dims of the result that are dims of x
  Value index;       // [batch..., dims.size()]
  Dims slice_sizes;  // 1 in indexed dims
};
Lookup lookup(Builder& b, Value x, const OptionalValues& indices);
Value read(Builder& b, Value x, const Lookup& at);
Value write(Builder& b, Value x, const Lookup& at, Value updates, const Builder::Body& body);

}  // namespace tpu::ops
