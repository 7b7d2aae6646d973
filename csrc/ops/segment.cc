// Reductions of segments: runs of neighbours along a dimension, of lengths that a tensor has.
#include <limits>

#include "ops/families.h"
#include "ops/indexing.h"
#include "ops/reducing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

// Data seen as [rows, elements, inner], and which segment each element lies in.
struct Segments {
  Builder& b;
  int64_t rows = 1, elements, count, inner = 1;
  Value lengths;  // s32 [rows, count]
  Value place;    // s32 [rows * elements]: the number of the segment among all; beyond the last where in none

  Segments(Builder& builder, const Dims& data, const optional<Raw>& lengths_given, const optional<Raw>& offsets,
           int64_t axis_given)
      : b(builder) {
    const int64_t dim = axis(axis_given, static_cast<int64_t>(data.size()));
    elements = data[static_cast<size_t>(dim)];
    for (int64_t d = 0; d < static_cast<int64_t>(data.size()); ++d) {
      if (d != dim) (d < dim ? rows : inner) *= data[static_cast<size_t>(d)];
    }
    const Value given = b.convert(lengths_given ? *lengths_given : *offsets, DType::kS32);
    count = given.dim(-1) - (lengths_given ? 0 : 1);
    const Value numbers = b.reshape(given, {rows, given.dim(-1)});
    Value starts, ends;
    if (lengths_given) {
      lengths = numbers;
      ends = b.cumulative(Reduce::kAdd, numbers, 1);
      starts = b.sub(ends, lengths);
    } else {
      starts = b.slice_dim(numbers, 1, 0, count), ends = b.slice_dim(numbers, 1, 1, count + 1);
      lengths = b.sub(ends, starts);
    }
    place = b.flatten(locate(starts, ends));
  }

  Value number(int64_t v) const { return b.scalar_int(v, DType::kS32); }
  Dims flat() const { return {rows * elements, inner}; }
  int64_t total() const { return rows * count; }

  // An element lies in the first segment that ends behind it, if that has begun.
  Value locate(Value starts, Value ends) const {
    const Dims grid{rows, elements};
    if (count == 0 || rows * elements == 0) return b.full(static_cast<double>(total()), DType::kS32, grid);
    const Value row = b.iota(DType::kS32, {rows, count}, 0);
    const auto flat_index = [&](Value v) {  // ends beyond all elements are dropped
      const Value in_grid = b.add(b.mul(row, number(elements)), v);
      return b.reshape(b.select(b.lt(v, number(elements)), in_grid, number(rows * elements)), {total(), 1});
    };
    const Value passed =
        b.scatter(b.zeros({DType::kS32, {rows * elements}}), flat_index(ends), b.full(1, DType::kS32, {total()}),
                  {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1}, combine(b, Reduce::kAdd));
    const Value at = b.cumulative(Reduce::kAdd, b.reshape(passed, grid), 1);
    const Value bounded = b.min(at, number(count - 1));
    const Value begun = b.ge(b.iota(DType::kS32, grid, 1), take_along(b, starts, bounded, 1));
    const Value among = b.add(b.mul(b.iota(DType::kS32, grid, 0), number(count)), at);
    return b.select(b.and_(begun, b.lt(at, number(count))), among, number(total()));
  }

  // `start` [segments, inner], each combined with its elements.
  Value reduce(Reduce how, Value x, Value start) const {
    if (x.numel() == 0 || start.numel() == 0) return start;
    return b.scatter(start, b.reshape(place, {rows * elements, 1}), x,
                     {.update_window = {1}, .inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1},
                     combine(b, how));
  }
  Value sums(Value x) const { return reduce(Reduce::kAdd, x, b.zeros({x.dtype(), {total(), inner}})); }
  // Of each element's segment [segments, inner]; of those in none, of any.
  Value each(Value of_segments) const { return take_slices(b, of_segments, b.min(place, number(total() - 1)), 0); }
  Value lengths_in(DType dtype) const {
    return b.broadcast_in_dim(b.reshape(b.convert(lengths, dtype), {total()}), {total(), inner}, {0});
  }
};

Value neutral(Builder& b, const std::string& how, DType dtype) {
  if (how == "max") return b.lowest(dtype);
  if (how == "min") return b.highest(dtype);
  return b.scalar(how == "prod" ? 1 : 0, dtype);
}

Value reduce_segments(Builder& b, const Call& call, Value x, const std::string& how, const optional<Raw>& lengths,
                      const optional<Raw>& offsets, int64_t dim, const optional<Scalar>& initial) {
  const Segments s(b, x.dims(), lengths, offsets, dim);
  x = b.reshape(b.convert(x, call.compute), s.flat());
  const Reduce combined = how == "max"    ? Reduce::kMax
                          : how == "min"  ? Reduce::kMin
                          : how == "prod" ? Reduce::kMul
                                          : Reduce::kAdd;
  const Value first = initial ? Value(*initial) : neutral(b, how, call.compute);
  Value y = s.reduce(combined, x, b.broadcast_to(first, {s.total(), s.inner}));
  if (how == "mean") {
    const Value n = s.lengths_in(call.compute);
    const Value of_none = initial ? y : b.full_like(y, std::numeric_limits<double>::quiet_NaN());
    y = b.select(b.eq(n, b.zeros_like(n)), of_none, b.div(y, n));
  }
  return b.reshape(y, call.results[0]->dims);
}

// The product of the others, for elements that are zero or NaN: by division for the rest.
Value product_gradient(Builder& b, const Segments& s, Value grad, Value x, Value y, const optional<Scalar>& initial) {
  const DType dtype = x.dtype();
  const Value zero = b.zeros_like(x), one = b.full_like(x, 1);
  const Value nan = b.is_nan(x), none = b.eq(x, zero);
  const Value start = initial ? Value(*initial) : b.scalar(1, dtype);
  const Value others =
      s.each(s.reduce(Reduce::kMul, b.select(b.or_(nan, none), one, x), b.broadcast_to(start, {s.total(), s.inner})));
  const Value zeros = s.each(s.sums(b.select(none, one, zero))), nans = s.each(s.sums(b.select(nan, one, zero)));
  const auto apart_from = [&](Value count, Value self) { return b.gt(b.sub(count, b.select(self, one, zero)), zero); };
  Value product = b.select(apart_from(zeros, none), zero, others);
  product = b.select(apart_from(nans, nan), b.full_like(x, std::numeric_limits<double>::quiet_NaN()), product);
  return b.mul(grad, b.select(b.or_(nan, none), product, b.div(y, x)));
}

Value segments_backward(Builder& b, const Call& call, Value grad, Value y, Value x, const std::string& how,
                        const optional<Raw>& lengths, const optional<Raw>& offsets, int64_t dim,
                        const optional<Scalar>& initial) {
  if (x.numel() == 0 || y.numel() == 0) return b.zeros(*call.results[0]);
  const Segments s(b, x.dims(), lengths, offsets, dim);
  const Dims whole = x.dims();
  x = b.reshape(b.convert(x, call.compute), s.flat());
  const auto of_segments = [&](Value v) { return b.reshape(b.convert(v, call.compute), {s.total(), s.inner}); };
  grad = of_segments(grad), y = of_segments(y);
  const Value zero = b.zeros_like(x);
  Value out;
  if (how == "max" || how == "min") {  // shared by those that are the extremum; PyTorch shares what is positive only
    const Value hit = b.or_(b.is_nan(x), b.eq(x, s.each(y)));
    const Value ties = s.sums(b.select(hit, b.full_like(x, 1), zero));
    const Value share = b.select(b.gt(grad, b.zeros_like(grad)), b.div(grad, ties), grad);
    out = b.select(hit, s.each(share), zero);
  } else if (how == "mean") {
    out = s.each(b.div(grad, s.lengths_in(call.compute)));
  } else if (how == "prod") {
    out = product_gradient(b, s, s.each(grad), x, s.each(y), initial);
  } else {
    out = s.each(grad);
  }
  const Value inside = b.lt(s.place, s.number(s.total()));
  return b.reshape(b.select(b.broadcast_in_dim(inside, x.dims(), {0}), out, zero), whole);
}

}  // namespace

void add_segment(Table& ops) {
  ops.add("segment_reduce", plain,
          [](Builder& b, const Call& call, Value x, std::string how, optional<Raw> lengths, optional<Raw>,
             optional<Raw> offsets, int64_t dim, bool,
             optional<Scalar> initial) { return reduce_segments(b, call, x, how, lengths, offsets, dim, initial); });
  ops.add("_segment_reduce_backward", plain,
          [](Builder& b, const Call& call, Value grad, Value y, Value x, std::string how, optional<Raw> lengths,
             optional<Raw> offsets, int64_t dim, optional<Scalar> initial) {
            return segments_backward(b, call, grad, y, x, how, lengths, offsets, dim, initial);
          });
}

}  // namespace tpu::ops
