// Convolutions and their gradients. A transposed convolution is the input gradient of an ordinary one, and the other
// way round, so three forms serve all.
#include "ops/families.h"

namespace tpu::ops {
namespace {

// An ordinary convolution of `input` [N, C, ...] by `kernel` [O, C / groups, ...].
struct Geometry {
  Dims stride, padding, dilation;
  int64_t groups;

  Geometry(const Dims& s, const Dims& p, const Dims& d, int64_t g, int64_t spatial)
      : stride(each(s, spatial)), padding(each(p, spatial)), dilation(each(d, spatial)), groups(g) {}
  // One number may stand for all dimensions.
  static Dims each(const Dims& v, int64_t spatial) {
    return v.size() == 1 ? Dims(static_cast<size_t>(spatial), v[0]) : v;
  }
};

Dims spatial_of(int64_t rank) {
  Dims dims;
  for (int64_t d = 2; d < rank; ++d) dims.push_back(d);
  return dims;
}

DType sums_in(Value x) { return opmath_of(x.dtype()); }

// `dims` are those of the output. Output padding of a transposed convolution leaves some of the input unused.
Value convolve(Builder& b, Value input, Value kernel, const Geometry& g, const Dims& dims) {
  const Dims s = spatial_of(input.rank());
  hlo::Window window{.stride = g.stride, .rhs_dilation = g.dilation, .low = g.padding};
  for (size_t i = 0; i < s.size(); ++i) {
    const int64_t reach = g.dilation[i] * (kernel.dim(s[i]) - 1) + (dims[i + 2] - 1) * g.stride[i] + 1;
    window.high.push_back(reach - input.dim(s[i]) - g.padding[i]);
  }
  return b.convolution(input, kernel, window, {0, 1, 1, 0, 0, 1, s, s, s}, g.groups, 1, sums_in(input));
}

// [groups * a, b, ...] -> [groups * b, a, ...]
Value swap_features(Builder& b, Value kernel, int64_t groups) {
  Dims split = kernel.dims(), order{0, 2, 1}, joined = kernel.dims();
  split[0] /= groups;
  split.insert(split.begin(), groups);
  for (size_t d = 3; d < split.size(); ++d) order.push_back(static_cast<int64_t>(d));
  joined[0] = groups * split[2], joined[1] = split[1];
  return b.reshape(b.transpose(b.reshape(kernel, split), order), joined);
}

// `input` is that of the convolution, of which `dims` are known and `output` is what it gives.
Value input_gradient(Builder& b, Value output, Value kernel, const Geometry& g, const Dims& dims) {
  const Dims s = spatial_of(output.rank());
  hlo::Window window{.lhs_dilation = g.stride, .rhs_dilation = g.dilation};
  for (size_t i = 0; i < s.size(); ++i) {
    const int64_t reach = g.dilation[i] * (kernel.dim(s[i]) - 1), low = reach - g.padding[i];
    const int64_t spread = (output.dim(s[i]) - 1) * g.stride[i] + 1;
    window.low.push_back(low);
    window.high.push_back(dims[i + 2] + reach - low - spread);
  }
  const Value flipped = b.reverse(kernel, s);
  if (g.groups == 1) {  // the roles of the features are swapped by name
    return b.convolution(output, flipped, window, {0, 1, 0, 1, 0, 1, s, s, s}, 1, 1, sums_in(output));
  }
  const Value swapped = swap_features(b, flipped, g.groups);
  return b.convolution(output, swapped, window, {0, 1, 1, 0, 0, 1, s, s, s}, g.groups, 1, sums_in(output));
}

Value kernel_gradient(Builder& b, Value input, Value output, const Geometry& g, const Dims& dims) {
  const Dims s = spatial_of(input.rank());
  hlo::Window window{.stride = g.dilation, .rhs_dilation = g.stride, .low = g.padding};
  for (size_t i = 0; i < s.size(); ++i) {
    const int64_t reach = g.dilation[i] * (dims[i + 2] - 1) + (output.dim(s[i]) - 1) * g.stride[i] + 1;
    window.high.push_back(reach - input.dim(s[i]) - g.padding[i]);
  }
  return b.convolution(input, output, window, {1, 0, 0, 1, 1, 0, s, s, s}, 1, g.groups, sums_in(input));
}

}  // namespace

void add_convolution(Table& ops) {
  ops.add("convolution", multiplication,
          [](Builder& b, const Call& call, Value x, Value kernel, optional<Value> bias, Dims stride, Dims padding,
             Dims dilation, bool transposed, Dims, int64_t groups) {
            const Geometry g(stride, padding, dilation, groups, x.rank() - 2);
            const Dims& dims = call.results[0]->dims;
            if (call.results[0]->numel() == 0) return b.zeros(*call.results[0]);
            const Value y = transposed ? input_gradient(b, x, kernel, g, dims) : convolve(b, x, kernel, g, dims);
            return bias ? b.add(y, b.broadcast_in_dim(b.convert(*bias, y.dtype()), dims, {1})) : y;
          })
      .channels_last_like({0, 1});
  ops.add("convolution_backward", multiplication,
          [](Builder& b, const Call& call, Value grad, Value x, Value kernel, optional<Dims>, Dims stride, Dims padding,
             Dims dilation, bool transposed, Dims, int64_t groups, Dims mask) {
            const Geometry g(stride, padding, dilation, groups, x.rank() - 2);
            Values out;
            if (x.numel() == 0 || grad.numel() == 0) {
              for (const hlo::Type* type : call.results) out.push_back(b.zeros(*type));
              return out;
            }
            if (mask[0]) {
              out.push_back(transposed ? convolve(b, grad, kernel, g, x.dims())
                                       : input_gradient(b, grad, kernel, g, x.dims()));
            }
            if (mask[1]) {
              out.push_back(transposed ? kernel_gradient(b, grad, x, g, kernel.dims())
                                       : kernel_gradient(b, x, grad, g, kernel.dims()));
            }
            if (mask[2]) {
              Dims summed = spatial_of(grad.rank());
              summed.insert(summed.begin(), 0);
              out.push_back(b.reduce(hlo::Reduce::kAdd, b.convert(grad, sums_in(grad)), summed));
            }
            return out;
          });
}

}  // namespace tpu::ops
