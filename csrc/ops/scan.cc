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

// exp(x) = sum * exp(top), so that no step rounds a logarithm.
struct Scaled {
  Value top, sum;  // top is real
};

Scaled added(Builder& b, const Scaled& x, const Scaled& y) {
  const Value top = b.max(x.top, y.top);
  const auto to_top = [&](const Scaled& v) {  // equal infinities stay what they are
    const Value factor = b.select(b.eq(v.top, top), b.full_like(top, 1), b.exp(b.sub(v.top, top)));
    return b.mul(v.sum, b.convert(factor, v.sum.dtype()));
  };
  return {top, b.add(to_top(x), to_top(y))};
}

// Doubles the reach of every element until it covers the whole dimension.
Value running_log_sum_exp(Builder& b, Value x, int64_t dim) {
  const DType real = real_of(x.dtype());
  Scaled s{b.real(x), is_complex(x.dtype()) ? b.exp(b.complex(b.zeros_like(b.real(x)), b.imag(x))) : b.full_like(x, 1)};
  for (int64_t step = 1; step < x.dim(dim); step *= 2) {
    Dims low(x.dims().size(), 0), high(x.dims().size(), 0);
    low[static_cast<size_t>(dim)] = step;
    high[static_cast<size_t>(dim)] = -step;
    const Scaled before{b.pad(s.top, b.lowest(real), low, high), b.pad(s.sum, b.scalar(0, x.dtype()), low, high)};
    s = added(b, before, s);
  }
  return b.add(b.convert(s.top, x.dtype()), b.log(s.sum));
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
