// Images of another size. Every mode is the same thing along each dimension: an element of the result is a weighted sum
// of a few elements of the input, whose places and weights depend on sizes and scales alone.
#include <algorithm>
#include <cmath>

#include "ops/families.h"
#include "ops/indexing.h"

namespace tpu::ops {
namespace {

enum class Mode { kNearest, kNearestExact, kLinear, kCubic, kLinearSmooth, kCubicSmooth };

// Per element of the result, in one dimension: tap k reads place[k][i] with weight[k][i].
struct Taps {
  std::vector<std::vector<int64_t>> place;
  std::vector<std::vector<double>> weight;  // empty: one tap of weight 1
};

struct Resize {
  int64_t in, out;
  bool align_corners;
  optional<double> scale;
};

// Arithmetic in T, as PyTorch's: float, but double for float64.
template <typename T>
T input_step(const Resize& r) {
  if (r.align_corners) return r.out > 1 ? static_cast<T>(r.in - 1) / static_cast<T>(r.out - 1) : T(0);
  if (r.scale && *r.scale > 0) return static_cast<T>(1.0 / *r.scale);
  return static_cast<T>(r.in) / static_cast<T>(r.out);
}

Taps nearest(const Resize& r, bool exact) {
  const auto step = input_step<float>({r.in, r.out, false, r.scale});
  Taps taps{{{}}, {}};
  for (int64_t i = 0; i < r.out; ++i) {
    const float at = exact ? std::floor(static_cast<float>((static_cast<double>(i) + 0.5) * step))
                           : std::floor(static_cast<float>(i) * step);
    taps.place[0].push_back(std::min(static_cast<int64_t>(at), r.in - 1));
  }
  return taps;
}

template <typename T>
T source(const Resize& r, int64_t i, bool cubic) {
  const T step = input_step<T>(r);
  if (r.align_corners) return step * static_cast<T>(i);
  const T at = step * (static_cast<T>(i) + T(0.5)) - T(0.5);
  return cubic ? at : std::max(at, T(0));
}

template <typename T>
T cubic_near(T x, T a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <typename T>
T cubic_far(T x, T a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

template <typename T>
Taps interpolated(const Resize& r, bool cubic) {
  const size_t count = cubic ? 4 : 2;
  Taps taps{std::vector<std::vector<int64_t>>(count), std::vector<std::vector<double>>(count)};
  const auto add = [&](size_t k, int64_t place, T weight) {
    taps.place[k].push_back(std::clamp<int64_t>(place, 0, r.in - 1));
    taps.weight[k].push_back(static_cast<double>(weight));
  };
  for (int64_t i = 0; i < r.out; ++i) {
    const T at = source<T>(r, i, cubic);
    const int64_t first = std::min(static_cast<int64_t>(std::floor(static_cast<float>(at))), r.in - 1);
    const T t = std::clamp(at - static_cast<T>(first), T(0), T(1));
    if (!cubic) {
      add(0, first, T(1) - t);
      add(1, first + 1, t);
      continue;
    }
    constexpr T a = T(-0.75);
    add(0, first - 1, cubic_far<T>(t + 1, a));
    add(1, first, cubic_near<T>(t, a));
    add(2, first + 1, cubic_near<T>(1 - t, a));
    add(3, first + 2, cubic_far<T>(2 - t, a));
  }
  return taps;
}

// With antialiasing: the filter is as wide as the input that an element of the result stands for.
template <typename T>
Taps smoothed(const Resize& r, bool cubic) {
  const T step = input_step<T>(r), width = std::max(step, T(1)), support = (cubic ? T(2) : T(1)) * width;
  const auto filter = [cubic](T x) {
    x = std::abs(x);
    if (!cubic) return x < 1 ? T(1) - x : T(0);
    constexpr T a = T(-0.5);
    return x < 1 ? cubic_near<T>(x, a) : x < 2 ? cubic_far<T>(x, a) : T(0);
  };
  Taps taps;
  for (int64_t i = 0; i < r.out; ++i) {
    const T center = step * (static_cast<T>(i) + T(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(center + support + T(0.5)), r.in) - first;
    std::vector<T> weights;
    T total = 0;
    for (int64_t k = 0; k < count; ++k) {
      weights.push_back(filter((static_cast<T>(k + first) - center + T(0.5)) / width));
      total += weights.back();
    }
    for (size_t k = 0; k < weights.size(); ++k) {
      if (k == taps.place.size()) {
        taps.place.emplace_back(static_cast<size_t>(i), 0);
        taps.weight.emplace_back(static_cast<size_t>(i), 0);
      }
      taps.place[k].push_back(first + static_cast<int64_t>(k));
      taps.weight[k].push_back(static_cast<double>(total != 0 ? weights[k] / total : weights[k]));
    }
    for (size_t k = weights.size(); k < taps.place.size(); ++k) {
      taps.place[k].push_back(std::min(first, r.in - 1));
      taps.weight[k].push_back(0);
    }
  }
  return taps;
}

template <typename T>
Taps taps_of(Mode mode, const Resize& r) {
  switch (mode) {
    case Mode::kNearest: return nearest(r, false);
    case Mode::kNearestExact: return nearest(r, true);
    case Mode::kLinear: return interpolated<T>(r, false);
    case Mode::kCubic: return interpolated<T>(r, true);
    case Mode::kLinearSmooth: return smoothed<T>(r, false);
    case Mode::kCubicSmooth: break;
  }
  return smoothed<T>(r, true);
}

Taps taps_in(Mode mode, const Resize& r, DType dtype) {
  return dtype == DType::kF64 ? taps_of<double>(mode, r) : taps_of<float>(mode, r);
}

// How often each element is repeated, where that is all there is to it.
int64_t repeats(const Taps& taps, const Resize& r) {
  if (!taps.weight.empty() || r.out % r.in != 0) return 0;
  const int64_t factor = r.out / r.in;
  for (int64_t i = 0; i < r.out; ++i) {
    if (taps.place[0][static_cast<size_t>(i)] != i / factor) return 0;
  }
  return factor;
}

Dims split(const Dims& dims, int64_t dim, int64_t factor) {  // size -> size / factor, factor
  Dims apart = dims;
  apart[static_cast<size_t>(dim)] /= factor;
  apart.insert(apart.begin() + dim + 1, factor);
  return apart;
}

Value weighted(Builder& b, Value x, const std::vector<double>& weight, int64_t dim) {
  return b.mul(x, b.broadcast_in_dim(b.array(weight, x.dtype()), x.dims(), {dim}));
}

Value resize(Builder& b, Value x, int64_t dim, const Taps& taps, const Resize& r) {
  if (const int64_t factor = repeats(taps, r); factor > 0) {
    Dims dims = x.dims(), mapping;
    dims[static_cast<size_t>(dim)] = r.out;
    for (int64_t d = 0; d < x.rank(); ++d) mapping.push_back(d > dim ? d + 1 : d);
    return b.reshape(b.broadcast_in_dim(x, split(dims, dim, factor), mapping), dims);
  }
  Value sum;
  for (size_t k = 0; k < taps.place.size(); ++k) {
    Value part = take_slices(b, x, b.array(taps.place[k], DType::kS32), dim);
    if (!taps.weight.empty()) part = weighted(b, part, taps.weight[k], dim);
    sum = k == 0 ? part : b.add(sum, part);
  }
  return sum;
}

Value resize_backward(Builder& b, Value grad, int64_t dim, const Taps& taps, const Resize& r) {
  if (const int64_t factor = repeats(taps, r); factor > 0) {
    return b.reduce(hlo::Reduce::kAdd, b.reshape(grad, split(grad.dims(), dim, factor)), {dim + 1});
  }
  Values parts;
  std::vector<int64_t> places;
  for (size_t k = 0; k < taps.place.size(); ++k) {
    parts.push_back(taps.weight.empty() ? grad : weighted(b, grad, taps.weight[k], dim));
    places.insert(places.end(), taps.place[k].begin(), taps.place[k].end());
  }
  Dims dims = grad.dims();
  dims[static_cast<size_t>(dim)] = r.in;
  return put_slices(b, b.full(0, grad.dtype(), dims), b.array(places, DType::kS32), b.concat(parts, dim), dim,
                    combine(b, hlo::Reduce::kAdd));
}

using Scales = std::vector<optional<double>>;

DType wide(DType dtype) { return is_int(dtype) ? DType::kF32 : opmath_of(dtype); }

Value forward(Builder& b, Mode mode, Value x, const Dims& size, bool align_corners, const Scales& scales) {
  const DType dtype = x.dtype();
  if (x.numel() == 0) {
    Dims dims{x.dim(0), x.dim(1)};
    dims.insert(dims.end(), size.begin(), size.end());
    return b.full(0, dtype, dims);
  }
  const bool weighs = mode != Mode::kNearest && mode != Mode::kNearestExact;
  if (weighs) x = b.convert(x, wide(dtype));
  for (size_t d = size.size(); d-- > 0;) {
    const auto dim = static_cast<int64_t>(d) + 2;
    const Resize r{x.dim(dim), size[d], align_corners, scales[d]};
    if (weighs && r.in == r.out && (mode == Mode::kLinear || mode == Mode::kLinearSmooth)) continue;
    x = resize(b, x, dim, taps_in(mode, r, x.dtype()), r);
  }
  if (!is_int(dtype) || !weighs) return x;
  return b.clamp(b.scalar(0, DType::kF32), b.floor(b.add(x, b.scalar(0.5, DType::kF32))), b.scalar(255, DType::kF32));
}

Value backward(Builder& b, Mode mode, Value grad, const Dims& in, bool align_corners, const Scales& scales) {
  grad = b.convert(grad, wide(grad.dtype()));
  if (grad.numel() == 0) return b.full(0, grad.dtype(), in);
  for (size_t d = 0; d + 2 < in.size(); ++d) {
    const auto dim = static_cast<int64_t>(d) + 2;
    const Resize r{in[d + 2], grad.dim(dim), align_corners, scales[d]};
    if (r.in == r.out && mode == Mode::kLinear) continue;
    grad = resize_backward(b, grad, dim, taps_in(mode, r, grad.dtype()), r);
  }
  return grad;
}

using S = optional<double>;

template <Mode mode>
void add_nearest(Table& ops, const std::string& prefix) {
  const auto name = [&](const char* rest) { return prefix + rest; };
  ops.add(name("1d").c_str(), plain,
          [](Builder& b, Value x, Dims size, S s) { return forward(b, mode, x, size, false, {s}); });
  ops.add(name("2d").c_str(), plain,
          [](Builder& b, Value x, Dims size, S h, S w) { return forward(b, mode, x, size, false, {h, w}); });
  ops.add(name("3d").c_str(), plain,
          [](Builder& b, Value x, Dims size, S d, S h, S w) { return forward(b, mode, x, size, false, {d, h, w}); });
  ops.add(name("1d_backward").c_str(), plain,
          [](Builder& b, Value grad, Dims, Dims in, S s) { return backward(b, mode, grad, in, false, {s}); });
  ops.add(name("2d_backward").c_str(), plain,
          [](Builder& b, Value grad, Dims, Dims in, S h, S w) { return backward(b, mode, grad, in, false, {h, w}); });
  ops.add(name("3d_backward").c_str(), plain, [](Builder& b, Value grad, Dims, Dims in, S d, S h, S w) {
    return backward(b, mode, grad, in, false, {d, h, w});
  });
}

template <Mode mode>
void add_2d(Table& ops, const std::string& name) {
  ops.add(name.c_str(), plain, [](Builder& b, Value x, Dims size, bool align, S h, S w) {
    return forward(b, mode, x, size, align, {h, w});
  });
  ops.add((name + "_backward").c_str(), plain, [](Builder& b, Value grad, Dims, Dims in, bool align, S h, S w) {
    return backward(b, mode, grad, in, align, {h, w});
  });
}

}  // namespace

void add_resampling(Table& ops) {
  add_nearest<Mode::kNearest>(ops, "upsample_nearest");
  add_nearest<Mode::kNearestExact>(ops, "_upsample_nearest_exact");
  add_2d<Mode::kLinear>(ops, "upsample_bilinear2d");
  add_2d<Mode::kCubic>(ops, "upsample_bicubic2d");
  add_2d<Mode::kLinearSmooth>(ops, "_upsample_bilinear2d_aa");
  add_2d<Mode::kCubicSmooth>(ops, "_upsample_bicubic2d_aa");
  ops.add("upsample_linear1d", plain, [](Builder& b, Value x, Dims size, bool align, S s) {
    return forward(b, Mode::kLinear, x, size, align, {s});
  });
  ops.add("upsample_linear1d_backward", plain, [](Builder& b, Value grad, Dims, Dims in, bool align, S s) {
    return backward(b, Mode::kLinear, grad, in, align, {s});
  });
  ops.add("upsample_trilinear3d", plain, [](Builder& b, Value x, Dims size, bool align, S d, S h, S w) {
    return forward(b, Mode::kLinear, x, size, align, {d, h, w});
  });
  ops.add("upsample_trilinear3d_backward", plain, [](Builder& b, Value grad, Dims, Dims in, bool align, S d, S h, S w) {
    return backward(b, Mode::kLinear, grad, in, align, {d, h, w});
  });
}

}  // namespace tpu::ops
