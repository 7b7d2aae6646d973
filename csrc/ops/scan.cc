#include "ops/families.h"
#include "ops/reducing.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

template <Reduce how>
Values running_extremum(Builder& b, const Call& call, Value x, int64_t dim) {
  const Dims dims = x.dims();
  dim = axis(dim, x.rank());
  x = at_least_1d(b, x);
  const Value best = b.cumulative(how, x, dim);
  // The last element so far that is the extremum, as PyTorch has it; NaN beats all.
  const Value hit = b.or_(b.eq(x, best), is_nan(b, x));
  const Value at = iota_like(b, x, dim);
  const Value index = b.cumulative(Reduce::kMax, b.select(hit, at, b.zeros_like(at)), dim);
  return {b.reshape(best, dims), b.reshape(index, call.results[1]->dims)};
}

Value log_add_exp(Builder& b, Value x, Value y) {
  const Value re_x = b.real(x), re_y = b.real(y);
  const Value top = b.max(re_x, re_y);
  if (is_complex(x.dtype())) {
    const Value shift = b.convert(b.select(b.is_finite(top), top, b.zeros_like(top)), x.dtype());
    return b.add(shift, b.log(b.add(b.exp(b.sub(x, shift)), b.exp(b.sub(y, shift)))));
  }
  // Equal infinities stay what they are.
  const Value apart = b.add(top, b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))));
  return b.select(b.and_(b.eq(x, y), b.not_(b.is_finite(x))), x, apart);
}

// Doubles the reach of every element until it covers the whole dimension.
Value running_log_sum_exp(Builder& b, Value x, int64_t dim) {
  const Value nothing = b.convert(b.lowest(real_of(x.dtype())), x.dtype());
  for (int64_t step = 1; step < x.dim(dim); step *= 2) {
    Dims low(x.dims().size(), 0), high(x.dims().size(), 0);
    low[static_cast<size_t>(dim)] = step;
    high[static_cast<size_t>(dim)] = -step;
    x = log_add_exp(b, b.pad(x, nothing, low, high), x);
  }
  return x;
}

template <typename F>
Value along(Builder& b, Value x, int64_t dim, F scan) {
  return b.reshape(scan(at_least_1d(b, x), axis(dim, x.rank())), x.dims());
}

}  // namespace

void add_scan(Table& ops) {
  ops.add("cumsum", reduction,
          [](Builder& b, Value x, int64_t dim, optional<DType>) {
            return along(b, x, dim, [&](Value v, int64_t d) { return b.cumulative(Reduce::kAdd, v, d); });
          })
      .in_result_dtype();
  ops.add("cumprod", reduction,
          [](Builder& b, Value x, int64_t dim, optional<DType>) {
            return along(b, x, dim, [&](Value v, int64_t d) { return b.cumulative(Reduce::kMul, v, d); });
          })
      .in_result_dtype();
  ops.add("cummax", plain,
          [](Builder& b, const Call& call, Value x, int64_t dim) {
            return running_extremum<Reduce::kMax>(b, call, x, dim);
          })
      .refuses(is_ordered);
  ops.add("cummin", plain,
          [](Builder& b, const Call& call, Value x, int64_t dim) {
            return running_extremum<Reduce::kMin>(b, call, x, dim);
          })
      .refuses(is_ordered);
  const auto logcumsumexp = [](Builder& b, Value x, int64_t dim) {
    return along(b, x, dim, [&](Value v, int64_t d) { return running_log_sum_exp(b, v, d); });
  };
  ops.add("logcumsumexp", reduction, logcumsumexp).in_result_dtype().refuses(is_inexact);
}

}  // namespace tpu::ops
