// Elements moved to other places: flips, rolls, shuffles, windows as columns, and what writes into a part of a tensor.
#include "ops/families.h"
#include "ops/indexing.h"

namespace tpu::ops {
namespace {

Value rolled(Builder& b, Value x, int64_t shift, int64_t dim) {
  const int64_t n = x.dim(dim);
  if (n == 0) return x;
  const int64_t start = ((n - shift % n) % n + n) % n;
  if (start == 0) return x;
  return b.concat({b.slice_dim(x, dim, start, n), b.slice_dim(x, dim, 0, start)}, dim);
}

// A place counted from the end where negative, brought into [0, size].
Value within(Builder& b, Value at, int64_t size) {
  const Value n = b.scalar_int(size, DType::kS64), zero = b.scalar_int(0, DType::kS64);
  return b.clamp(zero, b.select(b.lt(at, zero), b.add(at, n), at), n);
}

// x with every step-th element of `dim` from `start` on replaced by src's.
Value put_slice(Builder& b, Value x, Value src, int64_t dim, Value start, int64_t step) {
  if (x.numel() == 0 || src.numel() == 0) return x;
  const int64_t n = src.dim(dim), span = (n - 1) * step + 1;
  Values starts(x.dims().size(), b.scalar_int(0, DType::kS64));
  starts[static_cast<size_t>(dim)] = start;
  if (step == 1) return b.overwrite(x, src, starts);
  Dims interior(x.dims().size(), 0), none = interior, part = x.dims();
  interior[static_cast<size_t>(dim)] = step - 1;
  part[static_cast<size_t>(dim)] = span;
  const Value spread = b.pad(src, b.scalar(0, src.dtype()), none, none, interior);
  const Value place = b.iota(DType::kS32, part, dim);
  const Value meant = b.eq(b.rem(place, b.scalar_int(step, DType::kS32)), b.scalar_int(0, DType::kS32));
  const Value merged = b.select(meant, spread, b.dynamic_slice(x, starts, part));
  return b.overwrite(x, merged, starts);
}

Value put_select(Builder& b, Value x, Value src, int64_t dim, Value index) {
  return put_slice(b, x, b.expand_dims(src, {dim}), dim, within(b, index, x.dim(dim)), 1);
}

// Windows over the last two dims of x [N, C, H, W].
struct Windows {
  Dims kernel, dilation, padding, stride;
  int64_t count(int64_t size, size_t d) const {
    return (size + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
};

Value im2col(Builder& b, Value x, const Windows& w) {
  const int64_t n = x.dim(0), c = x.dim(1), rows = w.count(x.dim(2), 0), columns = w.count(x.dim(3), 1);
  const Dims around{0, 0, w.padding[0], w.padding[1]};
  x = b.pad(x, b.scalar(0, x.dtype()), around, around);
  Values parts;
  for (int64_t i = 0; i < w.kernel[0]; ++i) {
    for (int64_t k = 0; k < w.kernel[1]; ++k) {
      const int64_t top = i * w.dilation[0], left = k * w.dilation[1];
      const Value part = b.slice(x, {0, 0, top, left},
                                 {n, c, top + (rows - 1) * w.stride[0] + 1, left + (columns - 1) * w.stride[1] + 1},
                                 {1, 1, w.stride[0], w.stride[1]});
      parts.push_back(b.reshape(part, {n, c, 1, rows * columns}));
    }
  }
  return b.reshape(b.concat(parts, 2), {n, c * w.kernel[0] * w.kernel[1], rows * columns});
}

Value col2im(Builder& b, Value x, const Dims& size, const Windows& w) {
  const int64_t n = x.dim(0), taps = w.kernel[0] * w.kernel[1], c = x.dim(1) / taps;
  const int64_t rows = w.count(size[0], 0), columns = w.count(size[1], 1);
  const int64_t height = size[0] + 2 * w.padding[0], width = size[1] + 2 * w.padding[1];
  x = b.reshape(x, {n, c, taps, rows, columns});
  Value sum = b.full(0, x.dtype(), {n, c, height, width});
  for (int64_t i = 0; i < w.kernel[0]; ++i) {
    for (int64_t k = 0; k < w.kernel[1]; ++k) {
      const int64_t top = i * w.dilation[0], left = k * w.dilation[1], tap = i * w.kernel[1] + k;
      const Value part = b.reshape(b.slice_dim(x, 2, tap, tap + 1), {n, c, rows, columns});
      sum = b.add(sum, b.pad(part, b.scalar(0, x.dtype()), {0, 0, top, left},
                             {0, 0, height - top - (rows - 1) * w.stride[0] - 1,
                              width - left - (columns - 1) * w.stride[1] - 1},
                             {0, 0, w.stride[0] - 1, w.stride[1] - 1}));
    }
  }
  return b.slice(sum, {0, 0, w.padding[0], w.padding[1]}, {n, c, height - w.padding[0], width - w.padding[1]});
}

// Adds the windows of `grad`, its last dimension, back to where they were read: one term a place in the window, or one
// scatter where windows are large.
Value unfold_backward(Builder& b, Value grad, const Dims& sizes, int64_t dim, int64_t size, int64_t step) {
  constexpr int64_t kTerms = 32;
  const int64_t windows = grad.dim(dim), last = grad.rank() - 1, n = sizes[static_cast<size_t>(dim)];
  if (size <= kTerms) {
    Value sum = b.full(0, grad.dtype(), sizes);
    for (int64_t i = 0; i < size; ++i) {
      Dims low(sizes.size(), 0), high = low, interior = low;
      const auto d = static_cast<size_t>(dim);
      low[d] = i;
      high[d] = n - i - ((windows - 1) * step + 1);
      interior[d] = step - 1;
      const Value part = b.squeeze(b.slice_dim(grad, last, i, i + 1), {last});
      sum = b.add(sum, b.pad(part, b.scalar(0, grad.dtype()), low, high, interior));
    }
    return sum;
  }
  Dims order, flat = sizes;
  for (int64_t d = 0; d < last; ++d) {
    order.push_back(d);
    if (d == dim) order.push_back(last);
  }
  flat[static_cast<size_t>(dim)] = windows * size;
  const Value lined_up = b.reshape(b.transpose(grad, order), flat);
  const Value from = b.mul(b.iota(DType::kS32, {windows, size}, 0), b.scalar_int(step, DType::kS32));
  const Value index = b.flatten(b.add(from, b.iota(DType::kS32, {windows, size}, 1)));
  return put_slices(b, b.full(0, grad.dtype(), sizes), index, lined_up, dim, combine(b, hlo::Reduce::kAdd));
}

// [..., C * r * r, H, W] <-> [..., C, H * r, W * r]
Value pixel_shuffle(Builder& b, const Call& call, Value x, int64_t r) {
  const Dims& out = call.results[0]->dims;
  const int64_t c = out[out.size() - 3], h = x.dim(-2), w = x.dim(-1),
                n = x.numel() ? x.numel() / (c * r * r * h * w) : 0;
  if (x.numel() == 0) return b.zeros(*call.results[0]);
  return b.reshape(b.transpose(b.reshape(x, {n, c, r, r, h, w}), {0, 1, 4, 2, 5, 3}), out);
}

Value pixel_unshuffle(Builder& b, const Call& call, Value x, int64_t r) {
  const Dims& out = call.results[0]->dims;
  if (x.numel() == 0) return b.zeros(*call.results[0]);
  const int64_t c = x.dim(-3), h = x.dim(-2) / r, w = x.dim(-1) / r, n = x.numel() / (c * r * r * h * w);
  return b.reshape(b.transpose(b.reshape(x, {n, c, h, r, w, r}), {0, 1, 3, 5, 2, 4}), out);
}

Value channel_shuffle(Builder& b, Value x, int64_t groups) {
  if (x.numel() == 0) return x;
  const int64_t n = x.dim(0), c = x.dim(1);
  const Value split = b.reshape(x, {n, groups, c / groups, x.numel() / (n * c)});
  return b.reshape(b.transpose(split, {0, 2, 1, 3}), x.dims());
}

// Runs `op` on [N, ...] also where the batch is left out.
template <typename F>
Value batched(Builder& b, Value x, int64_t rank, F op) {
  if (x.rank() == rank) return op(x);
  const Value result = op(b.expand_dims(x, {0}));
  return b.squeeze(result, {0});
}

void add_moves(Table& ops) {
  ops.add("flip", plain, [](Builder& b, Value x, Dims dims) {
    if (x.rank() == 0) return x;
    for (int64_t& d : dims) d = axis(d, x.rank());
    return b.reverse(x, dims);
  });
  ops.add("roll", plain, [](Builder& b, Value x, Dims shifts, Dims dims) {
    if (x.numel() == 0) return x;
    if (dims.empty()) return b.reshape(rolled(b, b.flatten(x), shifts[0], 0), x.dims());
    for (size_t i = 0; i < dims.size(); ++i) x = rolled(b, x, shifts[i], axis(dims[i], x.rank()));
    return x;
  });
  ops.add("pixel_shuffle", plain,
          [](Builder& b, const Call& call, Value x, int64_t r) { return pixel_shuffle(b, call, x, r); });
  ops.add("pixel_unshuffle", plain,
          [](Builder& b, const Call& call, Value x, int64_t r) { return pixel_unshuffle(b, call, x, r); });
  ops.add("channel_shuffle", plain, [](Builder& b, Value x, int64_t groups) { return channel_shuffle(b, x, groups); });
}

void add_parts(Table& ops) {
  ops.add(
      "slice_backward", plain,
      [](Builder& b, const Call& call, Value grad, Dims sizes, int64_t dim, Position start, Position, int64_t step) {
        const int64_t d = axis(dim, static_cast<int64_t>(sizes.size()));
        return put_slice(b, b.full(0, call.results[0]->dtype, sizes), grad, d,
                         within(b, start, sizes[static_cast<size_t>(d)]), step);
      });
  ops.add("select_backward", plain,
          [](Builder& b, const Call& call, Value grad, Dims sizes, int64_t dim, Position index) {
            return put_select(b, b.full(0, call.results[0]->dtype, sizes), grad,
                              axis(dim, static_cast<int64_t>(sizes.size())), index);
          });
  ops.add("slice_scatter", plain,
          [](Builder& b, Value x, Value src, int64_t dim, optional<Position> start, optional<Position>, int64_t step) {
            const int64_t d = axis(dim, x.rank());
            return put_slice(b, x, b.convert(src, x.dtype()), d,
                             within(b, start ? *start : b.scalar_int(0, DType::kS64), x.dim(d)), step);
          });
  ops.add("select_scatter", plain, [](Builder& b, Value x, Value src, int64_t dim, Position index) {
    return put_select(b, x, b.convert(src, x.dtype()), axis(dim, x.rank()), index);
  });
}

void add_windows(Table& ops) {
  ops.add("im2col", plain, [](Builder& b, Value x, Dims kernel, Dims dilation, Dims padding, Dims stride) {
    const Windows w{kernel, dilation, padding, stride};
    return batched(b, x, 4, [&](Value v) { return im2col(b, v, w); });
  });
  ops.add("col2im", plain,
          [](Builder& b, const Call& call, Value x, Dims size, Dims kernel, Dims dilation, Dims padding, Dims stride) {
            const Windows w{kernel, dilation, padding, stride};
            return batched(b, b.convert(x, call.compute), 3, [&](Value v) { return col2im(b, v, size, w); });
          });
  ops.add("unfold_backward", plain,
          [](Builder& b, const Call& call, Value grad, Dims sizes, int64_t dim, int64_t size, int64_t step) {
            grad = b.convert(grad, call.compute);
            if (sizes.empty()) return b.reshape(grad, {});
            return unfold_backward(b, grad, sizes, axis(dim, static_cast<int64_t>(sizes.size())), size, step);
          });
}

}  // namespace

void add_rearranging(Table& ops) {
  add_moves(ops);
  add_parts(ops);
  add_windows(ops);
}

}  // namespace tpu::ops
