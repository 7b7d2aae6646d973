#include <algorithm>
#include <cmath>

#include "ops/division.h"
#include "ops/families.h"
#include "ops/rounding.h"
#include "ops/spacing.h"

namespace tpu::ops {

// From both ends, so that both are exact. Integers space in float64 and truncate. The CPU fuses the multiplication and
// the addition of float32, and rounds each step of narrower types.
Value spaced(Builder& b, Value start, Value end, int64_t steps, DType result) {
  const bool fused = result == DType::kF32, whole = is_int(result) || result == DType::kBool;
  const DType step_in = whole ? DType::kF64 : opmath_of(result), compute = fused ? DType::kF64 : step_in;
  const auto rounded = [&](Value v) { return round_to(b, v, result); };
  start = rounded(b.convert(start, step_in)), end = rounded(b.convert(end, step_in));
  if (steps <= 1) return b.broadcast_to(start, {steps});
  const Value gaps = rounded(b.scalar_int(steps - 1, step_in));
  const Value step = b.convert(rounded(divide_by_broadcast(b, rounded(b.sub(end, start)), gaps)), compute);
  start = b.convert(start, compute), end = b.convert(end, compute);
  const DType order = real_of(compute);
  const Value number = b.iota(order, {steps}, 0);
  const auto times = [&](Value n) { return rounded(b.mul(step, rounded(b.convert(n, compute)))); };
  const Value from_start = rounded(b.add(start, times(number)));
  const Value from_end = rounded(b.sub(end, times(b.sub(b.scalar_int(steps - 1, order), number))));
  return b.convert(b.select(b.lt(number, b.scalar_int(steps / 2, order)), from_start, from_end), step_in);
}

namespace {

Value broadcast(Builder& b, const Call& call, Value v) { return b.broadcast_to(v, call.results[0]->dims); }

// start + i * step. Integers wrap as PyTorch's do.
Value arithmetic_sequence(Builder& b, const Call& call, Value start, Value step) {
  const Value i = b.iota(start.dtype(), call.results[0]->dims, 0);
  return b.add(start, b.mul(i, step));
}

// What PyTorch counts in: sums of float32 and rounding once is what keeps arange(0, 1, 0.1) at tenths.
DType counting_dtype(DType result) {
  if (is_int(result)) return is_unsigned(result) ? result : DType::kS64;
  return result == DType::kF32 ? DType::kF64 : opmath_of(result);
}

DType spacing_dtype(DType result) { return is_int(result) || result == DType::kBool ? DType::kF64 : opmath_of(result); }
Value logspace(Builder& b, const Call& call, Value start, Value end, int64_t steps, double base) {
  const DType result = call.results[0]->dtype;
  return b.pow(b.scalar(base, spacing_dtype(result)), spaced(b, start, end, steps, result));
}

// j - i of the two innermost dimensions.
Value diagonal_number(Builder& b, const Dims& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  const Dims matrix(dims.end() - 2, dims.end());
  const Value difference = b.sub(b.iota(DType::kS32, matrix, 1), b.iota(DType::kS32, matrix, 0));
  return b.broadcast_in_dim(difference, dims, {rank - 2, rank - 1});
}

template <bool kUpper>
Value triangle(Builder& b, Raw x, int64_t diagonal) {
  const int64_t far = x.dim(-1) + x.dim(-2);
  const Value limit = b.scalar_int(std::clamp(diagonal, -far, far), DType::kS32);
  const Value d = diagonal_number(b, x.dims());
  return b.select(kUpper ? b.ge(d, limit) : b.le(d, limit), x, b.zeros_like(x));
}

Value eye(Builder& b, const Call& call) {
  return b.eq(diagonal_number(b, call.results[0]->dims), b.scalar(0, DType::kS32));
}

// Coordinates of a triangle in order: those outside sort to the end.
template <bool kUpper>
Value triangle_indices(Builder& b, const Call& call, int64_t rows, int64_t columns, int64_t offset) {
  const int64_t n = call.results[0]->dims[1], far = rows + columns;
  if (n == 0) return b.zeros({DType::kS64, {2, 0}});
  const Value d = diagonal_number(b, {rows, columns});
  const Value limit = b.scalar_int(std::clamp(offset, -far, far), DType::kS32);
  const Value inside = b.flatten(kUpper ? b.ge(d, limit) : b.le(d, limit));
  const Value place = b.iota(DType::kS64, {rows * columns}, 0);
  const Value keys = b.select(inside, place, b.highest(DType::kS64));
  const auto less = [&b](const Values& v) { return Values{b.lt(v[0], v[1])}; };
  const Value found = b.slice_dim(b.sort({keys}, 0, false, less)[0], 0, 0, n);
  const Value width = b.scalar_int(columns, DType::kS64);
  return b.concat({b.reshape(b.div(found, width), {1, n}), b.reshape(b.rem(found, width), {1, n})}, 0);
}

void add_constants(Table& ops) {
  ops.add("zeros", plain,
          [](Builder& b, const Call& call, Dims, Ignore, Ignore, Ignore, Ignore) { return b.zeros(*call.results[0]); });
  ops.add("_efficientzerotensor", plain,
          [](Builder& b, const Call& call, Dims, Ignore, Ignore, Ignore, Ignore) { return b.zeros(*call.results[0]); });
  ops.add("ones", plain, [](Builder& b, const Call& call, Dims, Ignore, Ignore, Ignore, Ignore) {
    return b.full(1, call.results[0]->dtype, call.results[0]->dims);
  });
  ops.add("full", plain, [](Builder& b, const Call& call, Dims, Scalar v, Ignore, Ignore, Ignore, Ignore) {
    return broadcast(b, call, v);
  });
  ops.add("scalar_tensor", plain, [](Builder&, Scalar v, Ignore, Ignore, Ignore, Ignore) { return Value(v); });
  ops.add("zeros_like", plain,
          [](Builder& b, const Call& call, Like, Ignore, Ignore, Ignore, Ignore, Ignore) {
            return b.zeros(*call.results[0]);
          })
      .computes_apart();
  ops.add("ones_like", plain,
          [](Builder& b, const Call& call, Like, Ignore, Ignore, Ignore, Ignore, Ignore) {
            return b.full(1, call.results[0]->dtype, call.results[0]->dims);
          })
      .computes_apart();
  ops.add("full_like", plain,
          [](Builder& b, const Call& call, Like, Scalar v, Ignore, Ignore, Ignore, Ignore, Ignore) {
            return broadcast(b, call, v);
          })
      .computes_apart();
  ops.add("zero", plain, [](Builder& b, const Call& call, Like) { return b.zeros(*call.results[0]); }).computes_apart();
  ops.add("fill.Scalar", plain, [](Builder& b, const Call& call, Like, Scalar v) { return broadcast(b, call, v); })
      .computes_apart();
  ops.add("fill.Tensor", plain, [](Builder& b, const Call& call, Like, Raw v) { return broadcast(b, call, v); })
      .computes_apart();
  ops.add("eye", plain,
          [](Builder& b, const Call& call, int64_t, Ignore, Ignore, Ignore, Ignore) { return eye(b, call); });
  ops.add("eye.m", plain,
          [](Builder& b, const Call& call, int64_t, int64_t, Ignore, Ignore, Ignore, Ignore) { return eye(b, call); });
}

// The number of elements of [start, end) in steps, for floats and for numbers that become integers first.
Dims arange_sizes(double start, double end, double step) {
  const auto length = [](double gap, double by) {
    const double n = std::ceil(gap / by);
    return std::abs(n) < 0x1p62 ? static_cast<int64_t>(n) : -1;  // also where PyTorch raises an error
  };
  return {length(end - start, step), length(std::trunc(end) - std::trunc(start), std::trunc(step))};
}

void add_arange(Table& ops) {
  ops.add("arange", plain,
          [](Builder& b, const Call& call, Scalar, Ignore, Ignore, Ignore, Ignore) {
            return b.iota(call.compute, call.results[0]->dims, 0);
          })
      .sized_by([](std::span<const double> n) { return arange_sizes(0, n[0], 1); })
      .numbers_in(counting_dtype);
  ops.add("arange.start", plain,
          [](Builder& b, const Call& call, Scalar start, Scalar, Ignore, Ignore, Ignore, Ignore) {
            return b.add(start, b.iota(call.compute, call.results[0]->dims, 0));
          })
      .sized_by([](std::span<const double> n) { return arange_sizes(n[0], n[1], 1); })
      .numbers_in(counting_dtype);
  ops.add("arange.start_step", plain,
          [](Builder& b, const Call& call, Scalar start, Scalar, Scalar step, Ignore, Ignore, Ignore, Ignore) {
            return arithmetic_sequence(b, call, start, step);
          })
      .sized_by([](std::span<const double> n) { return arange_sizes(n[0], n[1], n[2]); })
      .numbers_in(counting_dtype);
  ops.add("range.step", plain,
          [](Builder& b, const Call& call, Scalar start, Scalar, Scalar step, Ignore, Ignore, Ignore, Ignore) {
            return arithmetic_sequence(b, call, start, step);
          })
      .sized_by([](std::span<const double> n) {
        const double last = std::floor((n[1] - n[0]) / n[2]);
        return Dims{std::abs(last) < 0x1p62 ? static_cast<int64_t>(last) : -1};
      })
      .numbers_in(counting_dtype);
}

void add_sequences(Table& ops) {
  ops.add("linspace", plain,
          [](Builder& b, const Call& call, Scalar start, Scalar end, int64_t steps, Ignore, Ignore, Ignore, Ignore) {
            return spaced(b, start, end, steps, call.results[0]->dtype);
          });
  ops.add("logspace", plain,
          [](Builder& b, const Call& call, Scalar start, Scalar end, int64_t steps, double base, Ignore, Ignore, Ignore,
             Ignore) { return logspace(b, call, start, end, steps, base); });
  ops.add("tril_indices", plain,
          [](Builder& b, const Call& call, int64_t rows, int64_t columns, int64_t offset, Ignore, Ignore, Ignore,
             Ignore) { return triangle_indices<false>(b, call, rows, columns, offset); });
  ops.add("triu_indices", plain,
          [](Builder& b, const Call& call, int64_t rows, int64_t columns, int64_t offset, Ignore, Ignore, Ignore,
             Ignore) { return triangle_indices<true>(b, call, rows, columns, offset); });
}

}  // namespace

void add_factory(Table& ops) {
  add_constants(ops);
  add_sequences(ops);
  add_arange(ops);
  ops.add("tril", plain, lowering<triangle<false>>).computes_apart();
  ops.add("triu", plain, lowering<triangle<true>>).computes_apart();
  ops.add("copy", broadcasting, [](Builder&, Value, Raw src, bool) { return Value(src); });
  ops.add("clone", broadcasting, [](Builder&, Raw x, Ignore) { return Value(x); });
  ops.add("_to_copy", broadcasting,
          [](Builder&, Raw x, Ignore, Ignore, Ignore, Ignore, Ignore, Ignore) { return Value(x); });
}

}  // namespace tpu::ops
