// Tensors put together, repeated, padded.
#include "ops/families.h"
#include "ops/indexing.h"

namespace tpu::ops {
namespace {

Value join(Builder& b, const Call& call, const Values& parts, int64_t dim) {
  const Type& result = *call.results[0];
  Values used;
  for (const Value& part : parts) {
    // Empty vectors fit anything, as they always did in PyTorch.
    if (part.dims() == Dims{0} && result.rank() != 1) continue;
    used.push_back(b.convert(part, result.dtype));
  }
  return used.empty() ? b.zeros(result) : b.concat(used, axis(dim, result.rank()));
}

Value repeat(Builder& b, Value x, const Dims& repeats) {
  const auto extra = static_cast<int64_t>(repeats.size()) - x.rank();
  Dims apart, together, mapping;
  for (size_t d = 0; d < repeats.size(); ++d) {
    const int64_t size = static_cast<int64_t>(d) < extra ? 1 : x.dim(static_cast<int64_t>(d) - extra);
    apart.push_back(repeats[d]);
    if (static_cast<int64_t>(d) >= extra) mapping.push_back(static_cast<int64_t>(apart.size()));
    apart.push_back(size);
    together.push_back(repeats[d] * size);
  }
  return b.reshape(b.broadcast_in_dim(x, apart, mapping), together);
}

// Paddings of PyTorch run from the last dimension, low and high of each.
void spread(const Dims& pad, int64_t rank, Dims& low, Dims& high) {
  low.assign(static_cast<size_t>(rank), 0);
  high = low;
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    low[static_cast<size_t>(rank) - 1 - i / 2] = pad[i];
    high[static_cast<size_t>(rank) - 1 - i / 2] = pad[i + 1];
  }
}

// One dimension of a padding that repeats what is inside: `edge` elements taken at the low and at the high side.
struct Side {
  int64_t dim, low, high;
};

Value crop(Builder& b, Value x, const Side& s) {
  const int64_t low = std::max<int64_t>(-s.low, 0), high = std::max<int64_t>(-s.high, 0);
  return b.slice_dim(x, s.dim, low, x.dim(s.dim) - high);
}

Value reflect(Builder& b, Value x, const Side& s) {
  const int64_t n = x.dim(s.dim);
  Values parts;
  if (s.low > 0) parts.push_back(b.reverse(b.slice_dim(x, s.dim, 1, s.low + 1), {s.dim}));
  parts.push_back(crop(b, x, s));
  if (s.high > 0) parts.push_back(b.reverse(b.slice_dim(x, s.dim, n - 1 - s.high, n - 1), {s.dim}));
  return b.concat(parts, s.dim);
}

Value replicate(Builder& b, Value x, const Side& s) {
  const auto edge = [&](int64_t at, int64_t count) {
    Dims dims = x.dims(), same;
    dims[static_cast<size_t>(s.dim)] = count;
    for (int64_t d = 0; d < x.rank(); ++d) same.push_back(d);
    return b.broadcast_in_dim(b.slice_dim(x, s.dim, at, at + 1), dims, same);
  };
  Values parts;
  if (s.low > 0) parts.push_back(edge(0, s.low));
  parts.push_back(crop(b, x, s));
  if (s.high > 0) parts.push_back(edge(x.dim(s.dim) - 1, s.high));
  return b.concat(parts, s.dim);
}

Value placed(Builder& b, Value x, int64_t dim, int64_t at, int64_t size) {
  Dims low(x.dims().size(), 0), high = low;
  low[static_cast<size_t>(dim)] = at;
  high[static_cast<size_t>(dim)] = size - at - x.dim(dim);
  return b.pad(x, b.scalar(0, x.dtype()), low, high);
}

// The gradient of what a padded dimension of `size` elements came from.
Value folded(Builder& b, Value grad, const Side& s, int64_t size, bool reflects) {
  const int64_t low = std::max<int64_t>(s.low, 0), high = std::max<int64_t>(s.high, 0), n = grad.dim(s.dim);
  Value sum = placed(b, b.slice_dim(grad, s.dim, low, n - high), s.dim, std::max<int64_t>(-s.low, 0), size);
  const auto add = [&](int64_t from, int64_t count, int64_t reflected_at, int64_t edge_at) {
    if (count == 0) return;
    const Value part = b.slice_dim(grad, s.dim, from, from + count);
    if (reflects) {
      sum = b.add(sum, placed(b, b.reverse(part, {s.dim}), s.dim, reflected_at, size));
    } else {
      const Value total = b.expand_dims(b.reduce(hlo::Reduce::kAdd, part, {s.dim}), {s.dim});
      sum = b.add(sum, placed(b, total, s.dim, edge_at, size));
    }
  };
  add(0, low, 1, 0);
  add(n - high, high, size - 1 - high, size - 1);
  return sum;
}

std::vector<Side> sides(const Dims& pad, int64_t rank) {
  std::vector<Side> list;
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    list.push_back({rank - 1 - static_cast<int64_t>(i / 2), pad[i], pad[i + 1]});
  }
  return list;
}

template <bool reflects>
constexpr auto pad_around = [](Builder& b, Value x, Dims pad) {
  for (const Side& s : sides(pad, x.rank())) x = reflects ? reflect(b, x, s) : replicate(b, x, s);
  return x;
};

template <bool reflects>
constexpr auto pad_backward = [](Builder& b, const Call& call, Value grad, Value x, Dims pad) {
  grad = b.convert(grad, call.compute);
  for (const Side& s : sides(pad, x.rank())) grad = folded(b, grad, s, x.dim(s.dim), reflects);
  return grad;
};

}  // namespace

void add_joining(Table& ops) {
  ops.add("cat", plain,
          [](Builder& b, const Call& call, Values parts, int64_t dim) { return join(b, call, parts, dim); })
      .joins_parts();
  ops.add("stack", plain, [](Builder& b, const Call& call, Values parts, int64_t dim) {
    const int64_t at = dim < 0 ? dim + call.results[0]->rank() : dim;
    for (Value& part : parts) part = b.expand_dims(part, {at});
    return join(b, call, parts, at);
  });
  ops.add("repeat", plain, [](Builder& b, Value x, Dims repeats) { return repeat(b, x, repeats); });
  ops.add("constant_pad_nd", plain, [](Builder& b, Value x, Dims pad, Scalar value) {
    Dims low, high;
    spread(pad, x.rank(), low, high);
    return b.pad(x, b.convert(value, x.dtype()), low, high);
  });
  ops.add("reflection_pad1d", plain, pad_around<true>);
  ops.add("reflection_pad2d", plain, pad_around<true>);
  ops.add("reflection_pad3d", plain, pad_around<true>);
  ops.add("replication_pad1d", plain, pad_around<false>);
  ops.add("replication_pad2d", plain, pad_around<false>);
  ops.add("replication_pad3d", plain, pad_around<false>);
  ops.add("reflection_pad1d_backward", plain, pad_backward<true>);
  ops.add("reflection_pad2d_backward", plain, pad_backward<true>);
  ops.add("reflection_pad3d_backward", plain, pad_backward<true>);
  ops.add("replication_pad1d_backward", plain, pad_backward<false>);
  ops.add("replication_pad2d_backward", plain, pad_backward<false>);
  ops.add("replication_pad3d_backward", plain, pad_backward<false>);
}

}  // namespace tpu::ops
