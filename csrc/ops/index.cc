// Reading at positions that tensors hold, and writing there: advanced indexing.
#include "ops/bounds.h"
#include "ops/dynamic.h"
#include "ops/families.h"
#include "ops/indexing.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

bool is_mask(const optional<Value>& index) {
  return index && (index->dtype() == DType::kBool || index->dtype() == DType::kU8);
}

// Masks left among the indices are alone: see aten/dynamic.cc.
optional<size_t> mask_at(const OptionalValues& indices) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (is_mask(indices[i])) return i;
  }
  return std::nullopt;
}

// x with `values` where the mask over its dims from `at` on is set: no count is needed, so nothing is read back. The
// true places of the mask stand for one dimension of `values`, which has its elements one by one or one for all.
Value put_masked(Builder& b, Value x, Value mask, int64_t at, Value values, bool accumulate) {
  mask = b.convert(mask, DType::kBool);
  const int64_t k = mask.rank(), selected_rank = x.rank() - k + 1, before = selected_rank - values.rank();
  if (at >= before && values.dim(at - before) != 1) {
    const Value order = b.cumulative(hlo::Reduce::kAdd, b.convert(b.flatten(mask), DType::kS32), 0);
    values = take_slices(b, values, b.sub(order, b.scalar_int(1, DType::kS32)), at - before);
  }
  Dims dims, mapping, mask_mapping;
  for (int64_t d = 0; d < values.rank(); ++d) {
    const int64_t place = d + before;
    if (place == at && values.dim(d) != 1) {
      for (int64_t i = 0; i < k; ++i) {
        dims.push_back(mask.dim(i));
        mapping.push_back(at + i);
      }
    } else if (place != at) {
      dims.push_back(values.dim(d));
      mapping.push_back(place < at ? place : place - 1 + k);
    }
  }
  for (int64_t i = 0; i < k; ++i) mask_mapping.push_back(at + i);
  const Value full = b.broadcast_in_dim(b.reshape(values, dims), x.dims(), mapping);
  return b.select(b.broadcast_in_dim(mask, x.dims(), mask_mapping), accumulate ? b.add(x, full) : full, x);
}

Value index_put(Builder& b, Value x, const OptionalValues& indices, Value values, bool accumulate) {
  const DType wide = accumulate ? opmath_of(x.dtype()) : x.dtype();
  x = b.convert(x, wide);
  values = b.convert(values, wide);
  if (const auto at = mask_at(indices)) {
    return put_masked(b, x, *indices[*at], static_cast<int64_t>(*at), values, accumulate);
  }
  const Lookup at = lookup(b, x, indices);
  bool fits = values.rank() <= static_cast<int64_t>(at.result.size());
  for (int64_t d = 1; fits && d <= values.rank(); ++d) {
    fits = values.dim(-d) == 1 || values.dim(-d) == at.result[at.result.size() - static_cast<size_t>(d)];
  }
  if (!fits) {
    throw hlo::BuildError("shape mismatch: value tensor of shape " + shape(values.dims()) +
                          " cannot be broadcast to indexing result of shape " + shape(at.result));
  }
  return write(b, x, at, values, accumulate ? combine(b, hlo::Reduce::kAdd) : replace());
}

Value check_indices(Builder& b, Value x, const OptionalValues& indices) {
  Value check = passes(b);
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d] || is_mask(indices[d])) continue;
    check = first_failed(b, check, bounds_wrapping(b, *indices[d], x.dims()[d]));
  }
  return check;
}

Value as_vector(Builder& b, Value v) { return v.rank() == 0 ? b.reshape(v, {1}) : v; }

// Ops of (self, dim, index), which a tensor without dims takes as one with a single element.
template <typename F>
Value at_dim(Builder& b, Value x, int64_t dim, Value index, F op) {
  const Dims dims = x.dims();
  const Value result = op(as_vector(b, x), as_vector(b, index), axis(dim, x.rank()));
  return result.numel() == x.numel() ? b.reshape(result, dims) : result;
}

Value size_check(Builder& b, Value x, int64_t dim, Value index) {
  return bounds(b, index, x.rank() == 0 ? 1 : x.dim(axis(dim, x.rank())));
}

Value index_fill(Builder& b, Value x, int64_t dim, Value index, Value value) {
  return at_dim(b, x, dim, index, [&](Value v, Value at, int64_t d) {
    // Which rows are meant, then a select: cheaper than writing each of them.
    const Value rows = b.full(0, DType::kBool, {v.dim(d)});
    const Value set =
        put_slices(b, rows, positions_wrapping(b, at, v.dim(d)), b.full(1, DType::kBool, {at.numel()}), 0, replace());
    return b.select(b.broadcast_in_dim(set, v.dims(), {d}), b.convert(value, v.dtype()), v);
  });
}

Value fill_check(Builder& b, Value x, int64_t dim, Value index) {
  return bounds_wrapping(b, index, x.rank() == 0 ? 1 : x.dim(axis(dim, x.rank())));
}

void add_advanced(Table& ops) {
  const auto read_at = [](Builder& b, Value x, OptionalValues indices) { return read(b, x, lookup(b, x, indices)); };
  const auto check = [](Builder& b, Value x, OptionalValues indices) { return check_indices(b, x, indices); };
  ops.add("index.Tensor", plain, read_at).checks(check);
  ops.add("_unsafe_index.Tensor", plain, read_at).checks(check);

  const auto put = [](Builder& b, Value x, OptionalValues indices, Value values, bool accumulate) {
    return index_put(b, x, indices, values, accumulate);
  };
  const auto check_put = [](Builder& b, Value x, OptionalValues indices, Value, bool) {
    return check_indices(b, x, indices);
  };
  ops.add("index_put", plain, put).checks(check_put);
  ops.add("_unsafe_index_put", plain, put).checks(check_put);
  ops.add("_index_put_impl", plain,
          [](Builder& b, Value x, OptionalValues indices, Value values, bool accumulate, bool) {
            return index_put(b, x, indices, values, accumulate);
          })
      .checks(
          [](Builder& b, Value x, OptionalValues indices, Value, bool, bool) { return check_indices(b, x, indices); });
}

bool is_index(const hlo::Type& type) { return type.dtype == DType::kS64 || type.dtype == DType::kS32; }

Status refuse_index_select(const Call& call) {
  TPU_RETURN_IF_ERROR(dim_exists(call));
  if (!is_index(*call.operands[1])) return invalid("index_select(): Expected dtype int32 or int64 for index");
  if (call.operands[1]->rank() <= 1) return {};
  return {Code::kOutOfRange, "index_select(): Index is supposed to be a vector"};
}

Status refuse_index_fill(const Call& call) {
  if (call.operands[1]->dtype == DType::kS64) return {};
  return {Code::kOutOfRange, "index_fill_(): Expected dtype int64 for index."};
}

Status refuse_index_reduce(const Call& call) {
  if (is_index(*call.operands[1])) return {};
  return invalid("index_reduce_(): Expected dtype int32/int64 for index but got: " +
                 kernel_name(call.operands[1]->dtype));
}

Status refuse_put(const Call& call) {
  if (call.operands[1]->dtype == DType::kS64) return {};
  return invalid("put_(): Expected a long tensor for index, but got " + kernel_name(call.operands[1]->dtype));
}

void add_slices(Table& ops) {
  ops.add("index_select", plain,
          [](Builder& b, const Call& call, Value x, int64_t dim, Value index) {
            const int64_t d = axis(dim, x.rank());
            const Value v = as_vector(b, x);
            const Value taken = take_slices(b, v, positions(b, as_vector(b, index), v.dim(d)), d);
            return b.reshape(taken, call.results[0]->dims);
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index) { return size_check(b, x, dim, index); })
      .refuses(refuse_index_select);

  ops.add("index_add", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Value source, Factor alpha) {
            return at_dim(b, x, dim, index, [&](Value v, Value at, int64_t d) {
              const DType wide = opmath_of(v.dtype());
              Value updates = b.convert(as_vector(b, source), wide);
              if (!alpha.is(1)) updates = b.mul(updates, b.convert(alpha, wide));
              return put_slices(b, b.convert(v, wide), positions(b, at, v.dim(d)), updates, d,
                                combine(b, hlo::Reduce::kAdd));
            });
          })
      .checks(
          [](Builder& b, Value x, int64_t dim, Value index, Value, Scalar) { return size_check(b, x, dim, index); });

  ops.add("index_copy", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Value source) {
            return at_dim(b, x, dim, index, [&](Value v, Value at, int64_t d) {
              Dims dims = v.dims();
              dims[static_cast<size_t>(d)] = at.numel();
              return put_slices(b, v, positions(b, at, v.dim(d)), b.reshape(source, dims), d, replace());
            });
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Value) { return size_check(b, x, dim, index); });

  ops.add("index_fill.int_Scalar", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Scalar value) {
            return index_fill(b, x, dim, index, value);
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Scalar) { return fill_check(b, x, dim, index); })
      .refuses(refuse_index_fill);
  ops.add(
         "index_fill.int_Tensor", plain,
         [](Builder& b, Value x, int64_t dim, Value index, Value value) { return index_fill(b, x, dim, index, value); })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Value) { return fill_check(b, x, dim, index); })
      .refuses(refuse_index_fill);

  ops.add("index_reduce", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Value source, std::string how, bool include_self) {
            return at_dim(b, x, dim, index, [&](Value v, Value at, int64_t d) {
              const Value place = positions(b, at, v.dim(d));
              return reduce_at(b, v, as_vector(b, source), how, include_self,
                               [&](Value target, Value updates, const Builder::Body& body) {
                                 return put_slices(b, target, place, updates, d, body);
                               });
            });
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Value, std::string, bool) {
        return size_check(b, x, dim, index);
      })
      .refuses(refuse_index_reduce);
}

void add_flat(Table& ops) {
  ops.add("take", plain,
          [](Builder& b, Value x, Value index) {
            const Value at = positions_wrapping(b, b.flatten(index), x.numel());
            return b.reshape(take_slices(b, b.flatten(x), at, 0), index.dims());
          })
      .checks([](Builder& b, Value x, Value index) { return bounds_wrapping(b, index, x.numel()); });
  ops.add("put", plain,
          [](Builder& b, Value x, Value index, Value source, bool accumulate) {
            const DType wide = accumulate ? opmath_of(x.dtype()) : x.dtype();
            const Value at = positions_wrapping(b, b.flatten(index), x.numel());
            const Value written = put_slices(b, b.convert(b.flatten(x), wide), at, b.convert(b.flatten(source), wide),
                                             0, accumulate ? combine(b, hlo::Reduce::kAdd) : replace());
            return b.reshape(written, x.dims());
          })
      .checks([](Builder& b, Value x, Value index, Value, bool) { return bounds_wrapping(b, index, x.numel()); })
      .refuses(refuse_put);
}

void add_masked(Table& ops) {
  ops.add("nonzero_static", plain,
          [](Builder& b, Value x, int64_t size, Scalar fill) {
            const Dims dims = x.dims();
            const auto rank = static_cast<int64_t>(dims.size());
            const Value filling = b.broadcast_to(b.convert(fill, DType::kS64), {size, rank});
            if (x.numel() == 0) return filling;
            const Compacted found = compacted(b, x);
            Value places = found.places;
            if (size <= x.numel()) {
              places = b.slice_dim(places, 0, 0, size);
            } else {
              places = b.pad(places, b.scalar_int(0, places.dtype()), {0}, {size - x.numel()});
            }
            const Value there = b.lt(b.iota(DType::kS32, {size, rank}, 0), found.count);
            return b.select(there, coordinates(b, places, dims), filling);
          })
      .results([](const Call& call) {
        return std::vector<Type>{{DType::kS64, {std::get<int64_t>(call.attributes[1]), call.operands[0]->rank()}}};
      });
  ops.add("masked_fill.Scalar", broadcasting, [](Builder& b, Value x, Value mask, Scalar value) {
    return b.select(b.convert(mask, DType::kBool), b.convert(value, x.dtype()), x);
  });
  ops.add("masked_fill.Tensor", broadcasting, [](Builder& b, Value x, Value mask, Value value) {
    return b.select(b.convert(mask, DType::kBool), b.convert(value, x.dtype()), x);
  });
  ops.add("masked_scatter", plain, [](Builder& b, const Call& call, Value x, Value mask, Value source) {
    const Dims& dims = call.results[0]->dims;
    mask = b.flatten(b.broadcast_to(b.convert(mask, DType::kBool), dims));
    x = b.flatten(b.broadcast_to(x, dims));
    if (source.numel() == 0 || x.numel() == 0) return b.reshape(x, dims);
    const Value order = b.cumulative(hlo::Reduce::kAdd, b.convert(mask, DType::kS32), 0);
    const Value taken = take_slices(b, b.flatten(source), b.sub(order, b.scalar_int(1, DType::kS32)), 0);
    return b.reshape(b.select(mask, b.convert(taken, x.dtype()), x), dims);
  });
}

}  // namespace

void add_index(Table& ops) {
  add_advanced(ops);
  add_slices(ops);
  add_flat(ops);
  add_masked(ops);
}

}  // namespace tpu::ops
