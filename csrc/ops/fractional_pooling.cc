// Max pools whose windows start at random places, drawn by the caller.
#include "ops/families.h"
#include "ops/indexing.h"
#include "ops/plane_positions.h"
#include "ops/rounding.h"

namespace tpu::ops {
namespace {

// Where the windows along one dimension start, s32 [planes, windows]: at about equal distances from a random phase, the
// last one at the end. In the steps of PyTorch's arithmetic, or a start would jump by one.
Value starts(Builder& b, Value phase, int64_t size, int64_t windows, int64_t width, DType dtype) {
  const int64_t planes = phase.numel();
  const Value last = b.full(static_cast<double>(size - width), DType::kS32, {planes, windows});
  if (windows <= 1) return last;
  const auto rounded = [&](Value v) { return round_to(b, v, dtype); };
  const auto number = [&](int64_t v) { return rounded(b.scalar_int(v, phase.dtype())); };
  const Value distance = rounded(b.div(number(size - width), number(windows - 1)));
  const auto place = [&](Value v) { return b.convert(rounded(b.mul(v, distance)), DType::kS32); };
  const Value each = b.broadcast_in_dim(phase, {planes, windows}, {0});
  const Value i = b.iota(DType::kS32, {planes, windows}, 1);
  const Value moved = rounded(b.add(rounded(b.convert(i, phase.dtype())), each));
  const Value inner = b.sub(place(moved), place(each));
  return b.select(b.lt(i, b.scalar_int(windows - 1, DType::kS32)), inner, last);
}

// Samples are of the last dimension first in two dimensions, and in order in three, as PyTorch has them.
template <size_t n>
Values pool(Builder& b, const Call& call, Value x, const Dims& kernel, Value samples) {
  const Dims& out = call.results[0]->dims;
  const size_t leading = x.dims().size() - n;
  const int64_t plane = plane_size(x.dims(), leading), windows = plane_size(out, leading);
  if (call.results[0]->numel() == 0) return {b.zeros(*call.results[0]), b.zeros(*call.results[1])};
  const int64_t planes = x.numel() / plane, elements = plane_size(kernel, 0);
  Dims cube{planes};  // planes, windows by dimension, elements of a window by dimension
  for (size_t i = 0; i < n; ++i) cube.push_back(out[leading + i]);
  for (const int64_t k : kernel) cube.push_back(k);
  const auto all = samples.numel() / static_cast<int64_t>(n);  // of one image too there may be samples for a batch
  samples = b.reshape(b.convert(samples, call.compute), {all, static_cast<int64_t>(n)});
  samples = b.slice_dim(samples, 0, 0, planes);
  Value place = b.zeros({DType::kS32, cube});
  for (size_t i = 0; i < n; ++i) {
    const auto column = static_cast<int64_t>(n == 2 ? n - 1 - i : i), dim = static_cast<int64_t>(i);
    const Value phase = b.reshape(b.slice_dim(samples, 1, column, column + 1), {planes});
    const int64_t size = x.dim(static_cast<int64_t>(leading + i));
    const Value start = starts(b, phase, size, out[leading + i], kernel[i], x.dtype());
    const Value at = b.add(b.broadcast_in_dim(start, cube, {0, 1 + dim}),
                           b.iota(DType::kS32, cube, static_cast<int64_t>(1 + n) + dim));
    place = b.add(b.mul(place, b.scalar_int(size, DType::kS32)), at);
  }
  place = b.reshape(place, {planes, windows * elements});
  const Value values = take_along(b, b.reshape(x, {planes, plane}), place, 1);
  const Dims by_window{planes, windows, elements};
  const Values found = b.reduce({b.reshape(values, by_window), b.reshape(place, by_window)}, no_maximum(b, x.dtype()),
                                {2}, [&](const Values& v) { return larger(b, v); });
  return {b.reshape(found[0], out), b.reshape(found[1], out)};
}

template <size_t n>
void add_pool(Table& ops, const char* forward, const char* backward) {
  ops.add(forward, plain, [](Builder& b, const Call& call, Value x, Dims kernel, Dims, Value samples) {
    return pool<n>(b, call, x, kernel.size() == 1 ? Dims(n, kernel[0]) : kernel, samples);
  });
  ops.add(backward, plain,
          [](Builder& b, const Call& call, Value grad, Value x, Dims, Dims, Value indices) {
            return add_at_positions(b, b.convert(grad, call.compute), indices, x.dims(), x.dims().size() - n);
          })
      .results(like<1>);
}

}  // namespace

void add_fractional_pooling(Table& ops) {
  add_pool<2>(ops, "fractional_max_pool2d", "fractional_max_pool2d_backward");
  add_pool<3>(ops, "fractional_max_pool3d", "fractional_max_pool3d_backward");
}

}  // namespace tpu::ops
