// Pooling with fixed windows over the last dimensions. Adaptive pools: adaptive_pooling.cc.
#include <algorithm>

#include "ops/families.h"
#include "ops/plane_positions.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;
using hlo::Window;

// One number may stand for all dimensions.
Dims each(const Dims& v, size_t n) { return v.size() == 1 ? Dims(n, v[0]) : v; }

struct Pool {
  Builder& b;
  Dims input, output;                    // all dims
  Dims size, stride, padding, dilation;  // of the spatial ones
  size_t spatial, leading;

  Pool(Builder& builder, const Dims& in, const Dims& out, const Dims& kernel, const Dims& step, const Dims& pad,
       const Dims& dilate)
      : b(builder), input(in), output(out), spatial(kernel.size()) {
    size = kernel;
    stride = step.empty() ? kernel : each(step, spatial);
    padding = each(pad, spatial), dilation = each(dilate, spatial), leading = in.size() - spatial;
  }

  int64_t in(size_t i) const { return input[leading + i]; }
  int64_t out(size_t i) const { return output[leading + i]; }
  int64_t reach(size_t i) const { return dilation[i] * (size[i] - 1) + 1; }
  // Padding behind the input, so that the windows end where it ends: less than none where some elements are in no
  // window.
  int64_t behind(size_t i) const { return (out(i) - 1) * stride[i] + reach(i) - in(i) - padding[i]; }

  // Values of the spatial dimensions, behind those of the leading ones.
  Dims with(int64_t other, const Dims& v) const {
    Dims all(leading, other);
    all.insert(all.end(), v.begin(), v.end());
    return all;
  }
  Window window() const {
    return {.size = with(1, size), .stride = with(1, stride), .rhs_dilation = with(1, dilation)};
  }
  Value padded(Value x, Value value) const {
    Dims high;
    for (size_t i = 0; i < spatial; ++i) high.push_back(behind(i));
    return b.pad(x, value, with(0, padding), with(0, high));
  }

  // How many elements each window holds, those of the padding too where they count, as PyTorch says: padding on either
  // side counts, what ceil_mode adds behind it does not.
  Value counts(bool with_padding, DType dtype) const {
    Value product = b.scalar(1, dtype);
    for (size_t i = 0; i < spatial; ++i) {
      std::vector<int64_t> n;
      for (int64_t o = 0; o < out(i); ++o) {
        const int64_t start = o * stride[i] - padding[i];
        const int64_t end = std::min(start + size[i], in(i) + padding[i]);
        n.push_back(with_padding ? end - start : std::min(end, in(i)) - std::max<int64_t>(start, 0));
      }
      const auto d = static_cast<int64_t>(leading + i);
      product = b.mul(product, b.broadcast_in_dim(b.array(n, dtype), output, {d}));
    }
    return product;
  }
  Value divisor(bool with_padding, const optional<int64_t>& fixed, DType dtype) const {
    return fixed ? b.scalar_int(*fixed, dtype) : counts(with_padding, dtype);
  }
};

// Up to this many elements a window, the gradient is written out window element by window element: no scatter.
constexpr int64_t kUnrolled = 32;

Values max_pool(Builder& b, const Call& call, Value x, const Dims& kernel, const Dims& stride, const Dims& padding,
                const Dims& dilation) {
  const Pool pool(b, x.dims(), call.results[0]->dims, kernel, stride, padding, dilation);
  const Values start = no_maximum(b, x.dtype());
  const Values elements = {pool.padded(x, start[0]), pool.padded(positions(b, x.dims(), pool.leading), start[1])};
  return b.reduce_window(elements, start, pool.window(), [&](const Values& v) { return larger(b, v); });
}

Value max_pool_backward(Builder& b, const Call& call, Value grad, Value x, const Dims& kernel, const Dims& stride,
                        const Dims& padding, const Dims& dilation, Value indices) {
  const Pool pool(b, x.dims(), grad.dims(), kernel, stride, padding, dilation);
  grad = b.convert(grad, call.compute);
  const int64_t elements = plane_size(pool.size, 0);
  if (elements > kUnrolled) return add_at_positions(b, grad, indices, x.dims(), pool.leading);
  // The k-th element of every window takes the gradient where the maximum was there.
  indices = b.convert(indices, DType::kS32);
  const Value zero = b.scalar(0, call.compute);
  Value sum = b.zeros({call.compute, x.dims()});
  for (int64_t k = 0; k < elements; ++k) {
    Value position = b.full(0, DType::kS32, grad.dims());
    Dims low(pool.spatial), high(pool.spatial), apart(pool.spatial);
    int64_t rest = k, row = 1;
    for (size_t i = pool.spatial; i-- > 0;) {
      const int64_t offset = rest % pool.size[i] * pool.dilation[i] - pool.padding[i];
      rest /= pool.size[i];
      const Value start = b.mul(b.iota(DType::kS32, grad.dims(), static_cast<int64_t>(pool.leading + i)),
                                b.scalar_int(pool.stride[i], DType::kS32));
      const Value at = b.add(start, b.scalar_int(offset, DType::kS32));
      position = b.add(position, b.mul(at, b.scalar_int(row, DType::kS32)));
      row *= pool.in(i);
      low[i] = offset, apart[i] = pool.stride[i] - 1;
      high[i] = pool.in(i) - offset - (pool.out(i) - 1) * pool.stride[i] - 1;
    }
    const Value taken = b.select(b.eq(indices, position), grad, zero);
    sum = b.add(sum, b.pad(taken, zero, pool.with(0, low), pool.with(0, high), pool.with(0, apart)));
  }
  return sum;
}

Value avg_pool(Builder& b, const Call& call, Value x, const Dims& kernel, const Dims& stride, const Dims& padding,
               bool count_padding, const optional<int64_t>& divisor) {
  const Pool pool(b, x.dims(), call.results[0]->dims, kernel, stride, padding, {1});
  const DType dtype = call.compute;
  const Value sums = b.reduce_window(Reduce::kAdd, pool.padded(b.convert(x, dtype), b.scalar(0, dtype)), pool.window());
  return b.div(sums, pool.divisor(count_padding, divisor, dtype));
}

// Each input element sums the windows that hold it: windows of the same size, sliding over the gradients set apart by
// the stride.
Value avg_pool_backward(Builder& b, const Call& call, Value grad, Value x, const Dims& kernel, const Dims& stride,
                        const Dims& padding, bool count_padding, const optional<int64_t>& divisor) {
  const Pool pool(b, x.dims(), grad.dims(), kernel, stride, padding, {1});
  const DType dtype = call.compute;
  const Value shares = b.div(b.convert(grad, dtype), pool.divisor(count_padding, divisor, dtype));
  Dims low, high, apart;
  for (size_t i = 0; i < pool.spatial; ++i) {
    low.push_back(pool.size[i] - 1 - pool.padding[i]);
    high.push_back(pool.size[i] - 1 - pool.behind(i));
    apart.push_back(pool.stride[i] - 1);
  }
  const Value spread = b.pad(shares, b.scalar(0, dtype), pool.with(0, low), pool.with(0, high), pool.with(0, apart));
  return b.reduce_window(Reduce::kAdd, spread, {.size = pool.with(1, pool.size)});
}

// Pools over the last n dimensions.
template <size_t n>
void add_pools(Table& ops, const char* max, const char* max_backward, const char* avg, const char* avg_backward) {
  ops.add(max, plain,
          [](Builder& b, const Call& call, Value x, Dims kernel, Dims stride, Dims padding, Dims dilation, bool) {
            return max_pool(b, call, x, each(kernel, n), stride, padding, dilation);
          });
  ops.add(max_backward, plain,
          [](Builder& b, const Call& call, Value grad, Value x, Dims kernel, Dims stride, Dims padding, Dims dilation,
             bool, Value indices) {
            return max_pool_backward(b, call, grad, x, each(kernel, n), stride, padding, dilation, indices);
          });
  ops.add(avg, plain,
          [](Builder& b, const Call& call, Value x, Dims kernel, Dims stride, Dims padding, bool, bool count_padding,
             optional<int64_t> divisor) {
            return avg_pool(b, call, x, each(kernel, n), stride, padding, count_padding, divisor);
          });
  ops.add(avg_backward, plain,
          [](Builder& b, const Call& call, Value grad, Value x, Dims kernel, Dims stride, Dims padding, bool,
             bool count_padding, optional<int64_t> divisor) {
            return avg_pool_backward(b, call, grad, x, each(kernel, n), stride, padding, count_padding, divisor);
          });
}

}  // namespace

void add_pooling(Table& ops) {
  add_pools<2>(ops, "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward");
  add_pools<3>(ops, "max_pool3d_with_indices", "max_pool3d_with_indices_backward", "avg_pool3d", "avg_pool3d_backward");
}

}  // namespace tpu::ops
