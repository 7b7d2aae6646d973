#include "ops/dynamic.h"

#include "ops/families.h"
#include "ops/indexing.h"

namespace tpu::ops {
namespace {

Value running_count(Builder& b, Value mask) { return b.cumulative(hlo::Reduce::kAdd, b.convert(mask, DType::kS32), 0); }

Value last(Builder& b, Value v) { return b.reshape(b.slice_dim(v, 0, v.dim(0) - 1, v.dim(0)), {}); }

Value numbers(Builder& b, int64_t n) { return b.iota(DType::kS32, {n}, 0); }

// values[i] at place where[i], each place once, those outside dropped.
Value placed(Builder& b, Value into, Value where, Value values) {
  return b.scatter(into, where, values, {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1},
                   replace(), true);
}

// Floats order NaN last, as PyTorch sorts; they differ from each other all the same.
Value less(Builder& b, Value x, Value y) {
  if (!is_float(x.dtype())) return b.lt(x, y);
  return b.or_(b.lt(x, y), b.and_(b.is_nan(y), b.not_(b.is_nan(x))));
}

// The order that sorts the rows of x [n, m]: stable sorts by each column, the last first.
Value sorting_order(Builder& b, Value x) {
  const int64_t n = x.dim(0), m = x.dim(1);
  const auto by = [n](Builder& at, Value key, Value order) {
    return at.sort({key, order}, 0, true, [&at](const Values& v) { return Values{less(at, v[0], v[1])}; })[1];
  };
  if (m == 1) return by(b, b.reshape(x, {n}), numbers(b, n));
  const Values done = b.while_(
      {b.scalar_int(m - 1, DType::kS32), numbers(b, n), x},
      [&](const Values& v) { return Values{b.ge(v[0], b.scalar_int(0, DType::kS32))}; },
      [&](const Values& v) {
        const Value column = b.reshape(b.dynamic_slice(v[2], {b.scalar_int(0, DType::kS32), v[0]}, {n, 1}), {n});
        return Values{b.sub(v[0], b.scalar_int(1, DType::kS32)), by(b, take_slices(b, column, v[1], 0), v[1]), v[2]};
      });
  return done[1];
}

}  // namespace

Compacted compacted(Builder& b, Value mask, int64_t fill) {
  const int64_t n = mask.numel();
  if (n == 0) return {b.scalar_int(0, DType::kS32), b.full(0, DType::kS32, {0})};
  mask = b.convert(b.flatten(mask), DType::kBool);
  const Value count = running_count(b, mask);
  const Value where = b.select(mask, b.sub(count, b.scalar_int(1, DType::kS32)), b.scalar_int(n, DType::kS32));
  return {last(b, count), placed(b, b.full(static_cast<double>(fill), DType::kS32, {n}), where, numbers(b, n))};
}

Value coordinates(Builder& b, Value places, const Dims& dims) {
  const int64_t n = places.numel();
  if (dims.empty() || n == 0) return b.full(0, DType::kS64, {n, static_cast<int64_t>(dims.size())});
  Values columns(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    const Value size = b.scalar_int(dims[d], DType::kS32);
    columns[d] = b.reshape(d == 0 ? places : b.rem(places, size), {n, 1});
    places = b.div(places, size);
  }
  return b.convert(b.concat(columns, 1), DType::kS64);
}

Values emit_count(Builder& b, const hlo::Call&, std::span<const Value> operands) {
  const Value set = b.convert(b.convert(b.flatten(operands[0]), DType::kBool), DType::kS64);
  return {b.reduce(hlo::Reduce::kAdd, set, {0})};
}

Values emit_nonzero(Builder& b, const hlo::Call&, std::span<const Value> operands) {
  const Compacted found = compacted(b, operands[0]);
  return {found.count, coordinates(b, found.places, operands[0].dims())};
}

Values emit_masked(Builder& b, const hlo::Call&, std::span<const Value> operands) {
  const Value x = operands[0], mask = operands[1];
  const Compacted found = compacted(b, mask);
  Dims dims = x.dims();
  dims.erase(dims.begin(), dims.begin() + mask.rank());
  dims.insert(dims.begin(), mask.numel());
  return {found.count, take_slices(b, b.reshape(x, dims), found.places, 0)};
}

Values emit_unique(Builder& b, const hlo::Call& call, std::span<const Value> operands) {
  const Value x = operands[0];
  const int64_t n = x.dim(0);
  const Value rows = b.reshape(x.dtype() == DType::kBool ? b.convert(x, DType::kU8) : x, {n, x.numel() / n});
  const bool together = std::get<bool>(call.attributes[0]);
  const Value order = together ? numbers(b, n) : sorting_order(b, rows);
  const Value sorted = together ? rows : take_slices(b, rows, order, 0);
  Value fresh = b.full(1, DType::kBool, {1});
  if (n > 1) {
    const Value differs = b.ne(b.slice_dim(sorted, 0, 1, n), b.slice_dim(sorted, 0, 0, n - 1));
    fresh = b.concat({fresh, b.reduce(hlo::Reduce::kOr, differs, {1})}, 0);
  }
  const Value one = b.scalar_int(1, DType::kS32);
  const Value group = b.sub(running_count(b, fresh), one);
  const Compacted starts = compacted(b, fresh, n);
  const Value ends =
      b.concat({b.slice_dim(starts.places, 0, 1, n), b.full(static_cast<double>(n), DType::kS32, {1})}, 0);
  const Value values = b.reshape(take_slices(b, sorted, starts.places, 0), x.dims());
  const Value inverse = together ? group : placed(b, b.full(0, DType::kS32, {n}), order, group);
  return {starts.count, values, inverse, b.sub(ends, starts.places)};
}

Values emit_least_and_sum(Builder& b, const hlo::Call&, std::span<const Value> operands) {
  const Value x = b.convert(operands[0], DType::kS64);
  const Value least = b.reshape(b.reduce(hlo::Reduce::kMin, x, {0}), {1});
  return {b.concat({least, b.reshape(b.reduce(hlo::Reduce::kAdd, x, {0}), {1})}, 0)};
}

Values emit_least_and_most(Builder& b, const hlo::Call&, std::span<const Value> operands) {
  const Value x = b.convert(operands[0], DType::kS64);
  const Value least = b.reshape(b.reduce(hlo::Reduce::kMin, x, {0}), {1});
  return {b.concat({least, b.reshape(b.reduce(hlo::Reduce::kMax, x, {0}), {1})}, 0)};
}

Values emit_repeated(Builder& b, const hlo::Call& call, std::span<const Value> operands) {
  const int64_t total = call.results[0]->dims[0];
  const Value ends = b.cumulative(hlo::Reduce::kAdd, b.convert(operands[0], DType::kS32), 0);
  const Value steps =
      put_slices(b, b.full(0, DType::kS32, {total}), ends, b.full_like(ends, 1), 0, combine(b, hlo::Reduce::kAdd));
  return {b.cumulative(hlo::Reduce::kAdd, steps, 0)};
}

Values emit_bincount(Builder& b, const hlo::Call& call, std::span<const Value> operands) {
  const Type& result = *call.results[0];
  const Value index = positions(b, operands[0], result.dims[0]);
  const Value counted =
      operands.size() > 1 ? b.convert(operands[1], result.dtype) : b.full(1, result.dtype, operands[0].dims());
  return {put_slices(b, b.zeros(result), index, counted, 0, combine(b, hlo::Reduce::kAdd))};
}

}  // namespace tpu::ops
