// What reductions, scans and sorts share.
#pragma once

#include <algorithm>
#include <limits>

#include "ops/indexing.h"

namespace tpu::ops {

inline constexpr Trait reduction{"reduction", true, false, false};

// A 0-d tensor counts as one of one element.
inline Value at_least_1d(Builder& b, Value x) { return x.rank() == 0 ? b.reshape(x, {1}) : x; }

inline Dims all_dims(const Value& x) {
  Dims dims;
  for (int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
  return dims;
}

// The dims of `x` that are reduced: all where none are given.
inline Dims reduced_dims(const Value& x, const optional<Dims>& dims) {
  if (!dims || dims->empty() || x.rank() == 0) return all_dims(x);
  Dims out;
  for (const int64_t d : *dims) out.push_back(axis(d, x.rank()));
  return out;
}
inline Dims reduced_dims(const Value& x, int64_t dim) { return reduced_dims(x, Dims{dim}); }

inline int64_t count(const Value& x, const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= x.dim(d);
  return n;
}

// `v`, which came of reducing `dims` of `x`, as large as `x` again.
inline Value spread(Builder& b, Value v, const Value& x, const Dims& dims) {
  Dims mapping;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) mapping.push_back(d);
  }
  return b.broadcast_in_dim(v, x.dims(), mapping);
}

// 0, 1, 2, ... along `dim` of `x`, in the narrowest type that is fast everywhere.
inline Value iota_like(Builder& b, const Value& x, int64_t dim) {
  const bool narrow = x.dim(dim) <= std::numeric_limits<int32_t>::max();
  return b.iota(narrow ? DType::kS32 : DType::kS64, x.dims(), dim);
}

inline Value is_nan(Builder& b, Value x) {
  return is_float(x.dtype()) || is_complex(x.dtype()) ? b.is_nan(x) : b.full(0, DType::kBool, x.dims());
}

// x[index] of a rank-1 x, in the dims of `index`.
inline Value take_each(Builder& b, Value x, Value index) {
  return b.reshape(take_slices(b, x, b.flatten(index), 0), index.dims());
}

// The extremum along `dim`, NaN if there is one, and where it stands first. Two plain reductions: they vectorize, a
// reduction of pairs does not.
struct Extremum {
  Value value, index;
};
inline Extremum extremum(Builder& b, hlo::Reduce how, Value x, int64_t dim) {
  const Value value = b.reduce(how, x, {dim});
  const Value hit = b.or_(b.eq(x, spread(b, value, x, {dim})), is_nan(b, x));
  const Value at = iota_like(b, x, dim);
  const Value none = b.scalar_int(std::max<int64_t>(x.dim(dim) - 1, 0), at.dtype());
  return {value, b.reduce(hlo::Reduce::kMin, b.select(hit, at, none), {dim})};
}

}  // namespace tpu::ops
