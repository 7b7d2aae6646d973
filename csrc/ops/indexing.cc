#include "ops/indexing.h"

#include <algorithm>
#include <limits>

namespace tpu::ops {
namespace {

using hlo::GatherDims;
using hlo::ScatterDims;

DType position_type(int64_t size) { return size <= std::numeric_limits<int32_t>::max() ? DType::kS32 : DType::kS64; }

Dims all_but(int64_t rank, int64_t dim) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != dim) dims.push_back(d);
  }
  return dims;
}

// The part of x, along dims other than `dim`, that an index of these dims reaches.
Value reached(Builder& b, Value x, const Dims& index, int64_t dim) {
  Dims limit = index;
  limit[static_cast<size_t>(dim)] = x.dim(dim);
  return b.slice(x, Dims(limit.size(), 0), limit);
}

bool empty(Value v) { return v.numel() == 0; }

Value divide(Builder& b, Value sum, Value count) {
  if (!is_int(sum.dtype())) return b.div(sum, count);
  const Value quotient = b.div(sum, count);
  if (is_unsigned(sum.dtype())) return quotient;
  const Value below = b.lt(b.rem(sum, count), b.scalar_int(0, sum.dtype()));  // counts are positive
  return b.sub(quotient, b.convert(below, sum.dtype()));
}

}  // namespace

Value positions(Builder& b, Value index, int64_t size) { return b.convert(index, position_type(size)); }

Value positions_wrapping(Builder& b, Value index, int64_t size) {
  const Value at = positions(b, index, size);
  return b.select(b.lt(at, b.scalar_int(0, at.dtype())), b.add(at, b.scalar_int(size, at.dtype())), at);
}

Value take_slices(Builder& b, Value x, Value index, int64_t dim) {
  Dims sizes = x.dims(), result = x.dims();
  sizes[static_cast<size_t>(dim)] = 1;
  result[static_cast<size_t>(dim)] = index.numel();
  if (empty(x) || empty(index)) return b.full(0, x.dtype(), result);
  return b.gather(
      x, index, {.offset = all_but(x.rank(), dim), .collapsed = {dim}, .start_index_map = {dim}, .index_vector_dim = 1},
      sizes);
}

Value take_along(Builder& b, Value x, Value index, int64_t dim) {
  if (empty(x) || empty(index)) return b.full(0, x.dtype(), index.dims());
  const Dims others = all_but(x.rank(), dim);
  const GatherDims dims{.collapsed = {dim},
                        .operand_batching = others,
                        .indices_batching = others,
                        .start_index_map = {dim},
                        .index_vector_dim = x.rank()};
  return b.gather(reached(b, x, index.dims(), dim), index, dims, Dims(x.dims().size(), 1));
}

Value put_slices(Builder& b, Value x, Value index, Value updates, int64_t dim, const Builder::Body& body) {
  if (empty(x) || empty(index)) return x;
  const ScatterDims dims{.update_window = all_but(x.rank(), dim),
                         .inserted_window = {dim},
                         .scatter_to_operand = {dim},
                         .index_vector_dim = 1};
  return b.scatter(x, index, updates, dims, body);
}

Value put_along(Builder& b, Value x, Value index, Value updates, int64_t dim, const Builder::Body& body) {
  if (empty(x) || empty(index)) return x;
  const Dims others = all_but(x.rank(), dim);
  const ScatterDims dims{.inserted_window = {dim},
                         .operand_batching = others,
                         .indices_batching = others,
                         .scatter_to_operand = {dim},
                         .index_vector_dim = x.rank()};
  const Value part = reached(b, x, index.dims(), dim);
  const Value used = b.slice(updates, Dims(updates.dims().size(), 0), index.dims());
  const Value written = b.scatter(part, index, used, dims, body);
  return b.overwrite(x, written, Values(x.dims().size(), b.scalar_int(0, DType::kS32)));
}

Builder::Body replace() {
  return [](const Values& v) { return Values{v[1]}; };
}

Builder::Body combine(Builder& b, hlo::Reduce how) {
  return [&b, how](const Values& v) -> Values {
    switch (how) {
      case hlo::Reduce::kMul: return {b.mul(v[0], v[1])};
      case hlo::Reduce::kMax: return {b.max(v[0], v[1])};
      case hlo::Reduce::kMin: return {b.min(v[0], v[1])};
      case hlo::Reduce::kAnd: return {b.and_(v[0], v[1])};
      case hlo::Reduce::kOr: return {b.or_(v[0], v[1])};
      case hlo::Reduce::kAdd: break;
    }
    return {b.add(v[0], v[1])};
  };
}

Value reduce_at(Builder& b, Value x, Value updates, const std::string& how, bool include_self,
                const std::function<Value(Value, Value, const Builder::Body&)>& put) {
  const DType wide = opmath_of(x.dtype());
  x = b.convert(x, wide);
  updates = b.convert(updates, wide);
  hlo::Reduce reduce = hlo::Reduce::kAdd;
  Value neutral = b.scalar(0, wide);
  if (how == "prod" || how == "multiply") {
    reduce = hlo::Reduce::kMul;
    neutral = b.scalar(1, wide);
  } else if (how == "amax") {
    reduce = hlo::Reduce::kMax;
    neutral = b.lowest(wide);
  } else if (how == "amin") {
    reduce = hlo::Reduce::kMin;
    neutral = b.highest(wide);
  }
  Value from = x;
  if (!include_self) from = put(x, b.broadcast_to(neutral, updates.dims()), replace());
  const Value reduced = put(from, updates, combine(b, reduce));
  if (how != "mean") return reduced;
  Value count = put(b.full_like(x, include_self ? 1 : 0), b.full_like(updates, 1), combine(b, hlo::Reduce::kAdd));
  if (!include_self) count = b.select(b.eq(count, b.scalar(0, wide)), b.full_like(count, 1), count);
  return divide(b, reduced, count);
}

Lookup lookup(Builder& b, Value x, const OptionalValues& indices) {
  Lookup at;
  at.slice_sizes = x.dims();
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    at.dims.push_back(static_cast<int64_t>(d));
    at.slice_sizes[d] = std::min<int64_t>(1, x.dims()[d]);
    const Dims& dims = indices[d]->dims();
    if (dims.size() > at.batch.size()) at.batch.insert(at.batch.begin(), dims.size() - at.batch.size(), 1);
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t& size = at.batch[at.batch.size() - dims.size() + i];
      if (size == 1) size = dims[i];
    }
  }
  Values parts;
  for (const int64_t d : at.dims) {
    const Value index = positions_wrapping(b, *indices[static_cast<size_t>(d)], x.dim(d));
    const Value whole = b.broadcast_to(index, at.batch);
    parts.push_back(b.expand_dims(whole, {whole.rank()}));
  }
  for (Value& v : parts)
    v = b.convert(v, std::any_of(parts.begin(), parts.end(), [](Value p) { return p.dtype() == DType::kS64; })
                         ? DType::kS64
                         : DType::kS32);
  at.index = b.concat(parts, static_cast<int64_t>(at.batch.size()));

  // Adjacent indexed dims give way to the batch in their place, others to one in front.
  const bool adjacent = at.dims.back() - at.dims.front() + 1 == static_cast<int64_t>(at.dims.size());
  const auto batch_at = static_cast<size_t>(adjacent ? at.dims.front() : 0);
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(at.dims.begin(), at.dims.end(), d) == at.dims.end()) at.result.push_back(x.dim(d));
  }
  for (size_t i = 0; i < at.result.size(); ++i) {
    at.offset.push_back(static_cast<int64_t>(i < batch_at ? i : i + at.batch.size()));
  }
  at.result.insert(at.result.begin() + static_cast<int64_t>(batch_at), at.batch.begin(), at.batch.end());
  return at;
}

Value read(Builder& b, Value x, const Lookup& at) {
  if (empty(x) || empty(at.index)) return b.full(0, x.dtype(), at.result);
  return b.gather(x, at.index,
                  {.offset = at.offset,
                   .collapsed = at.dims,
                   .start_index_map = at.dims,
                   .index_vector_dim = static_cast<int64_t>(at.batch.size())},
                  at.slice_sizes);
}

Value write(Builder& b, Value x, const Lookup& at, Value updates, const Builder::Body& body) {
  if (empty(x) || empty(at.index)) return x;
  return b.scatter(x, at.index, b.broadcast_to(updates, at.result),
                   {.update_window = at.offset,
                    .inserted_window = at.dims,
                    .scatter_to_operand = at.dims,
                    .index_vector_dim = static_cast<int64_t>(at.batch.size())},
                   body);
}

}  // namespace tpu::ops
