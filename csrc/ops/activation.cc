#include <cmath>
#include <numbers>

#include "ops/complex_parts.h"
#include "ops/families.h"

namespace tpu::ops {
namespace {

Value constant(Builder& b, Value like, double v) { return b.scalar(v, like.dtype()); }
Value zero(Builder& b, Value like) { return constant(b, like, 0); }

Value scale(Builder& b, Value x, double v) { return b.mul(x, constant(b, x, v)); }
Value offset(Builder& b, Value x, double v) { return b.add(x, constant(b, x, v)); }
Value between(Builder& b, Value x, Value low, Value high) { return b.and_(b.ge(x, low), b.le(x, high)); }

// --- gelu ----------------------------------------------------------------------------------------------------------

constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kTanhCube = 0.044715;

Value normal_cdf(Builder& b, Value x) {
  return scale(b, offset(b, b.unary("chlo.erf", scale(b, x, std::numbers::sqrt2 / 2)), 1), 0.5);
}
Value tanh_of_gelu(Builder& b, Value x) {
  const Value cube = b.mul(b.mul(x, x), x);
  return b.tanh(scale(b, b.add(x, scale(b, cube, kTanhCube)), kTanhScale));
}

Value gelu(Builder& b, Value x, const std::string& approximate) {
  if (approximate == "none") return b.mul(x, normal_cdf(b, x));
  return b.mul(scale(b, x, 0.5), offset(b, tanh_of_gelu(b, x), 1));
}

Value gelu_backward(Builder& b, Value grad, Value x, const std::string& approximate) {
  if (approximate == "none") {
    const Value density = scale(b, b.exp(scale(b, b.mul(x, x), -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return b.mul(grad, b.add(normal_cdf(b, x), b.mul(x, density)));
  }
  const Value t = tanh_of_gelu(b, x);
  const Value dt = b.sub(constant(b, x, 1), b.mul(t, t));
  const Value inner = scale(b, offset(b, scale(b, b.mul(x, x), 3 * kTanhCube), 1), kTanhScale);
  const Value right = b.mul(b.mul(scale(b, x, 0.5), dt), inner);
  return b.mul(grad, b.add(scale(b, offset(b, t, 1), 0.5), right));
}

// --- the others -----------------------------------------------------------------------------------------------------

Value mish_backward(Builder& b, Value grad, Value x) {
  const Value t = b.tanh(b.log1p(b.exp(x))), one = constant(b, x, 1);
  return b.mul(grad, b.add(t, b.mul(b.mul(x, b.logistic(x)), b.sub(one, b.mul(t, t)))));
}

Value relu6_of_shifted(Builder& b, Value x) {  // 6 times hardsigmoid
  return b.min(b.max(offset(b, x, 3), zero(b, x)), constant(b, x, 6));
}

Value hardswish_backward(Builder& b, Value grad, Value x) {
  const Value slope = offset(b, b.div(x, constant(b, x, 3)), 0.5);
  const Value inner = b.select(b.lt(x, constant(b, x, 3)), b.mul(grad, slope), grad);
  return b.select(b.le(x, constant(b, x, -3)), b.zeros_like(x), inner);
}

Value elu(Builder& b, Value x, Scalar alpha, Scalar scale, Scalar input_scale) {
  const Value negative = b.mul(b.expm1(b.mul(x, input_scale)), b.mul(alpha, scale));
  return b.select(b.lt(x, zero(b, x)), negative, b.mul(x, scale));
}

Value elu_backward(Builder& b, Value grad, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Value x) {
  const Value coefficient = b.mul(alpha, scale);
  const Value slope = is_result ? b.mul(b.add(x, coefficient), input_scale)
                                : b.mul(b.exp(b.mul(x, input_scale)), b.mul(coefficient, input_scale));
  return b.select(b.le(x, zero(b, x)), b.mul(grad, slope), b.mul(grad, scale));
}

Value softplus(Builder& b, Value x, Factor beta, Scalar threshold) {
  const Value scaled = beta.is(1) ? x : b.mul(x, beta);
  const Value soft = b.log1p(b.exp(scaled));
  return b.select(b.gt(scaled, threshold), x, beta.is(1) ? soft : b.div(soft, beta));
}

Value softplus_backward(Builder& b, Value grad, Value x, Factor beta, Scalar threshold) {
  const Value scaled = beta.is(1) ? x : b.mul(x, beta);
  return b.select(b.gt(scaled, threshold), grad, b.mul(grad, b.logistic(scaled)));
}

std::pair<Value, Value> halves(Builder& b, Value x, int64_t dim) {
  dim = dim < 0 ? dim + x.rank() : dim;
  const int64_t n = x.dim(dim);
  return {b.slice_dim(x, dim, 0, n / 2), b.slice_dim(x, dim, n / 2, n)};
}

Value glu_backward(Builder& b, Value grad, Value x, int64_t dim) {
  const DType compute = opmath_of(x.dtype());
  grad = b.convert(grad, compute);
  const auto [first, second] = halves(b, b.convert(x, compute), dim);
  const Value gate = b.logistic(second);
  const Value to_first = b.mul(grad, gate);
  const Value to_second = b.mul(b.mul(b.sub(constant(b, gate, 1), gate), to_first), first);
  return b.concat({to_first, to_second}, dim < 0 ? dim + x.rank() : dim);
}

void add_thresholds(Table& ops) {
  ops.add("relu", exact, [](Builder& b, Value x) { return b.max(x, zero(b, x)); });
  ops.add("threshold", exact,
          [](Builder& b, Value x, Scalar threshold, Scalar value) { return b.select(b.le(x, threshold), value, x); });
  ops.add("threshold_backward", exact, [](Builder& b, Value grad, Value x, Scalar threshold) {
    return b.select(b.le(x, threshold), zero(b, grad), grad);
  });
  ops.add("hardtanh", exact, [](Builder& b, Value x, Scalar low, Scalar high) { return b.min(b.max(x, low), high); });
  ops.add("hardtanh_backward", exact, [](Builder& b, Value grad, Value x, Scalar low, Scalar high) {
    return b.select(b.or_(b.le(x, low), b.ge(x, high)), zero(b, grad), grad);
  });
  ops.add("hardshrink", exact, [](Builder& b, Value x, Scalar lambda) {
    return b.select(between(b, x, b.neg(lambda), lambda), zero(b, x), x);
  });
  ops.add("hardshrink_backward", exact, [](Builder& b, Value grad, Value x, Scalar lambda) {
    return b.select(between(b, x, b.neg(lambda), lambda), zero(b, grad), grad);
  });
  ops.add("softshrink", pointwise, [](Builder& b, Value x, Scalar lambda) {
    const Value high = b.sub(x, lambda), low = b.add(x, lambda), none = b.mul(x, zero(b, x));
    return b.select(b.gt(x, lambda), high, b.select(b.lt(x, b.neg(lambda)), low, none));
  });
  ops.add("softshrink_backward", exact, [](Builder& b, Value grad, Value x, Scalar lambda) {
    return b.select(between(b, x, b.neg(lambda), lambda), zero(b, grad), grad);
  });
}

void add_leaky(Table& ops) {
  const auto leaky = [](Builder& b, Value x, Scalar slope) {
    return b.select(b.gt(x, zero(b, x)), x, b.mul(x, slope));
  };
  ops.add("leaky_relu", pointwise, leaky);
  ops.add("leaky_relu_backward", pointwise, [](Builder& b, Value grad, Value x, Scalar slope, bool) {
    return b.select(b.gt(x, zero(b, x)), grad, b.mul(grad, slope));
  });
  ops.add("_prelu_kernel", pointwise,
          [](Builder& b, Value x, Value weight) { return b.select(b.gt(x, zero(b, x)), x, b.mul(weight, x)); });
  ops.add("_prelu_kernel_backward", pointwise, [](Builder& b, Value grad, Value x, Value weight) {
    const Value positive = b.gt(x, zero(b, x));
    return Values{b.select(positive, grad, b.mul(weight, grad)), b.select(positive, zero(b, x), b.mul(x, grad))};
  });
  ops.add("elu", pointwise, lowering<elu>);
  ops.add("elu_backward", pointwise, lowering<elu_backward>);
}

}  // namespace

void add_activation(Table& ops) {
  add_thresholds(ops);
  add_leaky(ops);
  ops.add("gelu", pointwise, lowering<gelu>);
  ops.add("gelu_backward", pointwise, lowering<gelu_backward>);
  ops.add("silu", pointwise, [](Builder& b, Value x) { return b.mul(x, b.logistic(x)); });
  ops.add("silu_backward", pointwise, [](Builder& b, Value grad, Value x) {
    const Value s = b.logistic(x), one = constant(b, x, 1);
    return b.mul(b.mul(grad, s), b.add(one, b.mul(x, b.sub(one, s))));
  });
  ops.add("mish", pointwise, [](Builder& b, Value x) { return b.mul(x, b.tanh(b.log1p(b.exp(x)))); });
  ops.add("mish_backward", pointwise, lowering<mish_backward>);
  ops.add("sigmoid_backward", pointwise,
          [](Builder& b, Value grad, Value y) { return b.mul(grad, conj(b, b.mul(b.sub(constant(b, y, 1), y), y))); });
  ops.add("tanh_backward", pointwise,
          [](Builder& b, Value grad, Value y) { return b.mul(grad, conj(b, b.sub(constant(b, y, 1), b.mul(y, y)))); });
  ops.add("hardsigmoid", pointwise,
          [](Builder& b, Value x) { return b.div(relu6_of_shifted(b, x), constant(b, x, 6)); });
  ops.add("hardsigmoid_backward", pointwise, [](Builder& b, Value grad, Value x) {
    const Value inside = b.and_(b.gt(x, constant(b, x, -3)), b.lt(x, constant(b, x, 3)));
    return b.select(inside, b.div(grad, constant(b, x, 6)), zero(b, grad));
  });
  ops.add("hardswish", pointwise,
          [](Builder& b, Value x) { return b.div(b.mul(x, relu6_of_shifted(b, x)), constant(b, x, 6)); });
  ops.add("hardswish_backward", pointwise, lowering<hardswish_backward>);
  ops.add("softplus", pointwise, lowering<softplus>);
  ops.add("softplus_backward", pointwise, lowering<softplus_backward>);
  ops.add("log_sigmoid_forward", pointwise, [](Builder& b, Value x) {
    const Value z = b.exp(b.neg(b.abs(x)));
    return Values{b.sub(b.min(x, zero(b, x)), b.log1p(z)), z};
  });
  ops.add("log_sigmoid_backward", pointwise,
          [](Builder& b, Value grad, Value x, Value) { return b.mul(grad, b.logistic(b.neg(x))); });
  ops.add("glu", plain, [](Builder& b, Value x, int64_t dim) {
    const auto [first, second] = halves(b, b.convert(x, opmath_of(x.dtype())), dim);
    return b.mul(first, b.logistic(second));
  });
  ops.add("glu_backward", plain, lowering<glu_backward>);
}

}  // namespace tpu::ops
