// Images read at the places that a grid names. Along each dimension a place is a few taps, elements with a weight and
// the weight's slope; what is read is the sum over their products.
#include "ops/families.h"
#include "ops/indexing.h"

namespace tpu::ops {
namespace {

enum Interpolation : int64_t { kBilinear, kNearest, kBicubic };
enum Padding : int64_t { kZeros, kBorder, kReflection };

struct Sampling {
  int64_t interpolation, padding;
  bool align_corners;
};

struct Tap {
  Value index, inside, weight, slope;  // [N, P]; slope: by the grid's coordinate
};
using Taps = std::vector<Tap>;

// A place, and its derivative by the grid's coordinate.
struct Place {
  Value at, slope;
};

Value number(Builder& b, double v, Value like) { return b.scalar(v, like.dtype()); }

Place unnormalized(Builder& b, Value grid, int64_t size, bool align_corners) {
  const auto n = static_cast<double>(size);
  const Value from_low = b.add(grid, number(b, 1, grid));
  if (align_corners) {
    const Value at = b.mul(b.div(from_low, number(b, 2, grid)), number(b, n - 1, grid));
    return {at, b.full_like(grid, (n - 1) / 2)};
  }
  const Value at = b.div(b.sub(b.mul(from_low, number(b, n, grid)), number(b, 1, grid)), number(b, 2, grid));
  return {at, b.full_like(grid, n / 2)};
}

Place clipped(Builder& b, const Place& p, int64_t size) {
  const Value low = number(b, 0, p.at), high = number(b, static_cast<double>(size - 1), p.at);
  const Value within = b.and_(b.gt(p.at, low), b.lt(p.at, high));
  return {b.clamp(low, p.at, high), b.select(within, p.slope, b.full_like(p.slope, 0))};
}

Place reflected(Builder& b, const Place& p, int64_t size, bool align_corners) {
  const double low = align_corners ? 0 : -0.5,
               high = align_corners ? static_cast<double>(size - 1) : static_cast<double>(size) - 0.5;
  if (low == high) return {b.full_like(p.at, 0), b.full_like(p.slope, 0)};
  const Value shifted = b.sub(p.at, number(b, low, p.at)), zero = number(b, 0, p.at);
  const Value sign = b.select(b.lt(shifted, zero), b.full_like(p.at, -1), b.full_like(p.at, 1));
  const Value distance = b.abs(shifted), span = number(b, high - low, p.at);
  const Value extra = b.rem(distance, span);
  const Value flips = b.floor(b.div(distance, span));
  const Value even = b.eq(b.rem(flips, number(b, 2, p.at)), zero);
  const Value at = b.select(even, b.add(extra, number(b, low, p.at)), b.sub(number(b, high, p.at), extra));
  return {at, b.mul(p.slope, b.select(even, sign, b.neg(sign)))};
}

Place padded(Builder& b, Place p, int64_t size, const Sampling& s) {
  if (s.padding == kZeros) return p;
  if (s.padding == kReflection) p = reflected(b, p, size, s.align_corners);
  return clipped(b, p, size);
}

// The element at a whole number, which may lie outside or be no number.
Tap tap(Builder& b, Value whole, int64_t size, Value weight, Value slope) {
  const Value low = number(b, 0, whole), high = number(b, static_cast<double>(size - 1), whole);
  const Value inside = b.and_(b.ge(whole, low), b.le(whole, high));
  return {b.convert(b.select(inside, whole, b.full_like(whole, 0)), DType::kS32), inside, weight, slope};
}

// The cubic with A = -0.75, and its slope, at the tap `k` places after the last one before `t` (0 <= t < 1), as
// products of what is small where they are.
struct Cubic {
  Value weight, slope;
};
Cubic cubic(Builder& b, Value t, int64_t k) {
  const auto c = [&](double v) { return number(b, v, t); };
  const Value u = b.sub(c(1), t);
  if (k > 0) {  // seen from the other side
    const Cubic mirrored = cubic(b, u, 1 - k);
    return {mirrored.weight, b.neg(mirrored.slope)};
  }
  if (k < 0) {  // A t (1 - t)^2
    return {b.mul(b.mul(c(-0.75), t), b.mul(u, u)), b.mul(b.mul(c(-0.75), u), b.sub(c(1), b.mul(c(3), t)))};
  }
  // (A + 2) t^3 - (A + 3) t^2 + 1
  return {b.mul(u, b.add(c(1), b.mul(t, b.sub(c(1), b.mul(c(1.25), t))))), b.mul(t, b.sub(b.mul(c(3.75), t), c(4.5)))};
}

Taps taps_of(Builder& b, Value grid, int64_t size, const Sampling& s) {
  const Place place = unnormalized(b, grid, size, s.align_corners);
  const Value one = b.full_like(grid, 1);
  if (s.interpolation == kBicubic) {
    const Value floor = b.floor(place.at), t = b.sub(place.at, floor);
    Taps taps;
    for (int64_t k = -1; k <= 2; ++k) {
      const Cubic at = cubic(b, t, k);
      const Value whole = b.add(floor, number(b, static_cast<double>(k), floor));
      taps.push_back(tap(b, padded(b, {whole, one}, size, s).at, size, at.weight, b.mul(at.slope, place.slope)));
    }
    return taps;
  }
  const Place p = padded(b, place, size, s);
  if (s.interpolation == kNearest) return {tap(b, b.round_even(p.at), size, one, b.full_like(grid, 0))};
  const Value floor = b.floor(p.at), t = b.sub(p.at, floor);
  return {tap(b, floor, size, b.sub(one, t), b.neg(p.slope)), tap(b, b.add(floor, one), size, t, p.slope)};
}

// Calls `f` with one tap of each dimension, for all combinations.
template <typename F>
void each(const std::vector<Taps>& axes, F f) {
  std::vector<size_t> at(axes.size(), 0);
  while (true) {
    std::vector<const Tap*> taps;
    for (size_t d = 0; d < axes.size(); ++d) taps.push_back(&axes[d][at[d]]);
    f(taps);
    size_t d = axes.size();
    while (d-- > 0) {
      if (++at[d] < axes[d].size()) break;
      at[d] = 0;
      if (d == 0) return;
    }
  }
}

struct Problem {
  int64_t n, c, elements, points;
  Dims sizes;              // of the image
  std::vector<Taps> axes;  // in the order of `sizes`
  Value image;             // [N, C, elements]
};

Problem problem(Builder& b, Value image, Value grid, const Sampling& s, DType wide) {
  Problem p{image.dim(0), image.dim(1), 1, 1, {image.dims().begin() + 2, image.dims().end()}, {}, {}};
  for (const int64_t size : p.sizes) p.elements *= size;
  for (int64_t d = 1; d + 1 < grid.rank(); ++d) p.points *= grid.dim(d);
  const auto rank = static_cast<int64_t>(p.sizes.size());
  const Value flat = b.reshape(b.convert(grid, wide), {p.n, p.points, rank});
  for (int64_t d = 0; d < rank; ++d) {  // the grid names the innermost dimension first
    const Value along = b.squeeze(b.slice_dim(flat, 2, rank - 1 - d, rank - d), {2});
    p.axes.push_back(taps_of(b, along, p.sizes[static_cast<size_t>(d)], s));
  }
  p.image = b.reshape(b.convert(image, wide), {p.n, p.c, p.elements});
  return p;
}

Value flat_index(Builder& b, const Problem& p, const std::vector<const Tap*>& taps) {
  Value index = taps[0]->index;
  for (size_t d = 1; d < taps.size(); ++d) {
    index = b.add(b.mul(index, b.scalar_int(p.sizes[d], DType::kS32)), taps[d]->index);
  }
  return index;
}

Value inside(Builder& b, const std::vector<const Tap*>& taps) {
  Value all = taps[0]->inside;
  for (size_t d = 1; d < taps.size(); ++d) all = b.and_(all, taps[d]->inside);
  return all;
}

// The product of the weights, with the slope in place of one of them.
Value product(Builder& b, const std::vector<const Tap*>& taps, size_t sloped) {
  Value all;
  for (size_t d = 0; d < taps.size(); ++d) {
    const Value factor = d == sloped ? taps[d]->slope : taps[d]->weight;
    all = d == 0 ? factor : b.mul(all, factor);
  }
  return all;
}

Value over_channels(Builder& b, Value v, const Problem& p) {
  return b.broadcast_in_dim(v, {p.n, p.c, p.points}, {0, 2});
}

// [N, C, P], 0 where a tap is outside.
Value fetch(Builder& b, const Problem& p, const std::vector<const Tap*>& taps) {
  const Value got = b.gather(p.image, flat_index(b, p, taps),
                             {.offset = {1},
                              .collapsed = {2},
                              .operand_batching = {0},
                              .indices_batching = {0},
                              .start_index_map = {2},
                              .index_vector_dim = 2},
                             {1, p.c, 1});
  return b.select(over_channels(b, inside(b, taps), p), got, b.full_like(got, 0));
}

Value sample(Builder& b, const Call& call, Value image, Value grid, const Sampling& s) {
  if (call.results[0]->numel() == 0) return b.zeros(*call.results[0]);
  const Problem p = problem(b, image, grid, s, call.compute);
  Value sum = b.full(0, call.compute, {p.n, p.c, p.points});
  each(p.axes, [&](const std::vector<const Tap*>& taps) {
    sum = b.add(sum, b.mul(fetch(b, p, taps), over_channels(b, product(b, taps, taps.size()), p)));
  });
  return b.reshape(sum, call.results[0]->dims);
}

Values sample_backward(Builder& b, const Call& call, Value grad, Value image, Value grid, const Sampling& s,
                       const Dims& mask) {
  if (grad.numel() == 0) {
    Values zeros;
    for (const Type* t : call.results) zeros.push_back(b.zeros(*t));
    return zeros;
  }
  const Problem p = problem(b, image, grid, s, call.compute);
  grad = b.reshape(b.convert(grad, call.compute), {p.n, p.c, p.points});
  const bool image_too = mask[0] != 0;  // the grid's gradient is always returned, asked for or not
  Value to_image = b.full_like(p.image, 0);
  Values to_grid(p.axes.size(), b.full(0, call.compute, {p.n, p.points}));
  each(p.axes, [&](const std::vector<const Tap*>& taps) {
    const Value there = inside(b, taps);
    if (image_too) {
      const Value weight = over_channels(b, product(b, taps, taps.size()), p);
      const Value index = b.select(there, flat_index(b, p, taps), b.scalar_int(p.elements, DType::kS32));
      to_image = b.scatter(to_image, index, b.mul(grad, weight),
                           {.update_window = {1},
                            .inserted_window = {2},
                            .operand_batching = {0},
                            .indices_batching = {0},
                            .scatter_to_operand = {2},
                            .index_vector_dim = 2},
                           combine(b, hlo::Reduce::kAdd));
    }
    if (s.interpolation != kNearest) {
      const Value dot = b.reduce(hlo::Reduce::kAdd, b.mul(grad, fetch(b, p, taps)), {1});
      for (size_t d = 0; d < taps.size(); ++d) to_grid[d] = b.add(to_grid[d], b.mul(dot, product(b, taps, d)));
    }
  });
  Values results;
  if (image_too) results.push_back(b.reshape(to_image, image.dims()));
  Values parts(to_grid.rbegin(), to_grid.rend());
  for (Value& v : parts) v = b.expand_dims(v, {2});
  results.push_back(b.reshape(b.concat(parts, 2), grid.dims()));
  return results;
}

}  // namespace

void add_grid_sampler(Table& ops) {
  const auto forward = [](Builder& b, const Call& call, Value image, Value grid, int64_t interpolation, int64_t padding,
                          bool align) { return sample(b, call, image, grid, {interpolation, padding, align}); };
  const auto backward = [](Builder& b, const Call& call, Value grad, Value image, Value grid, int64_t interpolation,
                           int64_t padding, bool align, Dims mask) {
    return sample_backward(b, call, grad, image, grid, {interpolation, padding, align}, mask);
  };
  ops.add("grid_sampler_2d", plain, forward);
  ops.add("grid_sampler_3d", plain, forward);
  ops.add("grid_sampler_2d_backward", plain, backward);
  ops.add("grid_sampler_3d_backward", plain, backward);
}

}  // namespace tpu::ops
