// Adaptive pools: window o of n over a dimension of size l is [floor(o * l / n), ceil((o + 1) * l / n)). One dimension
// after the other: averages and maxima both allow it.
#include "ops/families.h"
#include "ops/plane_positions.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

// Dimension `dim` of size `from`, and its windows in a new dimension of size `to` before it.
struct Windows {
  Builder& b;
  int64_t dim, from, to;

  int64_t start(int64_t o) const { return o * from / to; }
  int64_t end(int64_t o) const { return ((o + 1) * from + to - 1) / to; }
  bool even() const { return to != 0 && from % to == 0; }

  Dims apart(const Dims& dims) const {
    Dims d = dims;
    d.insert(d.begin() + dim, to);
    d[static_cast<size_t>(dim + 1)] = even() ? from / to : from;
    return d;
  }
  // Each window's elements along dimension dim + 1, with `other` where the element is in another.
  Value split(Value x, Value other) const {
    const Dims dims = apart(x.dims());
    if (even()) return b.reshape(x, dims);
    Dims mapping;
    for (int64_t d = 0; d < x.rank(); ++d) mapping.push_back(d < dim ? d : d + 1);
    return b.select(inside(dims), b.broadcast_in_dim(x, dims, mapping), other);
  }
  Value inside(const Dims& dims) const {
    std::vector<int64_t> starts, ends;
    for (int64_t o = 0; o < to; ++o) starts.push_back(start(o)), ends.push_back(end(o));
    const auto spread = [&](const std::vector<int64_t>& v) {
      return b.broadcast_in_dim(b.array(v, DType::kS32), dims, {dim});
    };
    const Value at = b.iota(DType::kS32, dims, dim + 1);
    return b.and_(b.ge(at, spread(starts)), b.lt(at, spread(ends)));
  }
  Value counts(DType dtype, const Dims& dims) const {
    std::vector<int64_t> n;
    for (int64_t o = 0; o < to; ++o) n.push_back(end(o) - start(o));
    return b.broadcast_in_dim(b.array(n, dtype), dims, {dim});
  }
};

std::vector<Windows> windows_of(Builder& b, const Dims& from, const Dims& to, size_t spatial) {
  std::vector<Windows> all;
  for (size_t d = from.size() - spatial; d < from.size(); ++d) {
    all.push_back({b, static_cast<int64_t>(d), from[d], to[d]});
  }
  return all;
}

Value average(Builder& b, const Call& call, Value x, size_t spatial) {
  x = b.convert(x, call.compute);
  for (const Windows& w : windows_of(b, x.dims(), call.results[0]->dims, spatial)) {
    const Value sums = b.reduce(Reduce::kAdd, w.split(x, b.scalar(0, x.dtype())), {w.dim + 1});
    x = b.div(sums, w.counts(x.dtype(), sums.dims()));
  }
  return x;
}

Value average_backward(Builder& b, const Call& call, Value grad, size_t spatial) {
  Value g = b.convert(grad, call.compute);
  for (const Windows& w : windows_of(b, call.results[0]->dims, grad.dims(), spatial)) {
    const Value shares = b.div(g, w.counts(g.dtype(), g.dims()));
    Dims dims = g.dims(), mapping;
    dims[static_cast<size_t>(w.dim)] = w.from;
    const Dims apart = w.apart(dims);
    for (int64_t d = 0; d < g.rank(); ++d) mapping.push_back(d <= w.dim ? d : d + 1);
    const Value each = b.broadcast_in_dim(shares, apart, mapping);
    g = w.even() ? b.reshape(each, dims)
                 : b.reduce(Reduce::kAdd, b.select(w.inside(apart), each, b.scalar(0, g.dtype())), {w.dim});
  }
  return g;
}

Values maximum(Builder& b, const Call& call, Value x, size_t spatial) {
  const Values start = no_maximum(b, x.dtype());
  Values found = {x, positions(b, x.dims(), x.dims().size() - spatial)};
  for (const Windows& w : windows_of(b, x.dims(), call.results[0]->dims, spatial)) {
    found = b.reduce({w.split(found[0], start[0]), w.split(found[1], start[1])}, start, {w.dim + 1},
                     [&](const Values& v) { return larger(b, v); });
  }
  return found;
}

template <size_t n>
void add_adaptive(Table& ops, const char* avg, const char* avg_backward, const char* max, const char* max_backward) {
  ops.add(avg, plain, [](Builder& b, const Call& call, Value x, Dims) { return average(b, call, x, n); });
  ops.add(avg_backward, plain,
          [](Builder& b, const Call& call, Value grad, Value) { return average_backward(b, call, grad, n); });
  ops.add(max, plain, [](Builder& b, const Call& call, Value x, Dims) { return maximum(b, call, x, n); });
  ops.add(max_backward, plain, [](Builder& b, const Call& call, Value grad, Value x, Value indices) {
    return add_at_positions(b, b.convert(grad, call.compute), indices, x.dims(), x.dims().size() - n);
  });
}

}  // namespace

void add_adaptive_pooling(Table& ops) {
  add_adaptive<2>(ops, "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "adaptive_max_pool2d",
                  "adaptive_max_pool2d_backward");
  add_adaptive<3>(ops, "_adaptive_avg_pool3d", "_adaptive_avg_pool3d_backward", "adaptive_max_pool3d",
                  "adaptive_max_pool3d_backward");
}

}  // namespace tpu::ops
