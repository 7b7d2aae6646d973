#include <cmath>
#include <limits>
#include <numbers>

#include "ops/complex_parts.h"
#include "ops/families.h"
#include "ops/float_bits.h"

namespace tpu::ops {
namespace {

Value constant(Builder& b, Value like, double v) { return b.scalar(v, like.dtype()); }
Value scale(Builder& b, Value x, double v) { return b.mul(x, constant(b, x, v)); }

template <typename F>
void add_unary_op(Table& ops, const char* name, F, const Trait& trait = pointwise) {
  ops.add(name, trait, [](Builder& b, Value x) -> Value { return F{}(b, x); });
}
template <Value (Builder::*kMethod)(Value)>
void add_unary_op(Table& ops, const char* name, const Trait& trait = pointwise) {
  ops.add(name, trait, [](Builder& b, Value x) { return (b.*kMethod)(x); });
}

Value sign(Builder& b, Value x) {
  if (!is_float(x.dtype())) return b.sign(x);
  const Value s = b.sign(x);  // of NaN: 0, as (0 < x) - (x < 0)
  return b.select(b.is_nan(x), constant(b, x, 0), s);
}

Value truncate(Builder& b, Value x) { return b.select(b.lt(x, constant(b, x, 0)), b.ceil(x), b.floor(x)); }

Value round_decimals(Builder& b, Value x, int64_t decimals) {
  if (decimals == 0) return b.round_even(x);
  const Value ten = constant(b, x, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  return decimals > 0 ? b.div(b.round_even(b.mul(x, ten)), ten) : b.mul(b.round_even(b.div(x, ten)), ten);
}

// XLA's CPU compiler vectorizes atan2(x, 1) wrongly where it sees the 1.
Value atan(Builder& b, Value x) {
  if (is_complex(x.dtype())) return b.unary("chlo.atan", x);
  return b.atan2(x, b.select(b.is_nan(x), x, constant(b, x, 1)));
}

Value angle(Builder& b, Value x) {
  if (is_complex(x.dtype())) return b.atan2(b.imag(x), b.real(x));
  const Value flat = b.select(b.lt(x, constant(b, x, 0)), b.full_like(x, std::numbers::pi), b.zeros_like(x));
  return b.select(b.is_nan(x), x, flat);
}

Value logit(Builder& b, Value x, const optional<Scalar>& eps) {
  const Value one = constant(b, x, 1);
  if (eps) {
    const Value bounded = b.min(b.max(x, *eps), b.sub(one, *eps));
    x = b.select(b.lt(*eps, constant(b, x, 0)), x, bounded);
  }
  return b.log(b.div(x, b.sub(one, x)));
}

Value logit_backward(Builder& b, Value grad, Value x, const optional<Scalar>& eps) {
  const Value one = constant(b, x, 1), zero = constant(b, x, 0);
  const Value slope = b.div(grad, b.mul(x, b.sub(one, x)));
  const auto inside = [&](Value low, Value high) { return b.and_(b.ge(x, low), b.le(x, high)); };
  const Value whole = b.select(inside(zero, one), slope, b.full_like(x, std::nan("")));
  if (!eps) return whole;
  const Value cut = b.select(inside(*eps, b.sub(one, *eps)), slope, zero);
  return b.select(b.lt(*eps, zero), whole, cut);
}

double largest(DType dtype) {
  return dtype == DType::kF16    ? 65504
         : dtype == DType::kBF16 ? 0x1.fep127
         : dtype == DType::kF64  ? std::numeric_limits<double>::max()
                                 : std::numeric_limits<float>::max();
}

Value replace_special(Builder& b, Value x, const optional<Scalar>& nan, const optional<Scalar>& high,
                      const optional<Scalar>& low) {
  if (is_complex(x.dtype())) {
    const auto part = [&](const optional<Scalar>& s) {
      return s ? optional<Scalar>(Scalar(b, b.real(*s))) : std::nullopt;
    };
    return b.complex(replace_special(b, b.real(x), part(nan), part(high), part(low)),
                     replace_special(b, b.imag(x), part(nan), part(high), part(low)));
  }
  if (!is_float(x.dtype())) return x;
  const DType t = x.dtype();
  Value y = b.select(b.is_nan(x), nan ? Value(*nan) : b.scalar(0, t), x);
  y = b.select(b.eq(x, b.highest(t)), high ? Value(*high) : b.scalar(largest(t), t), y);
  return b.select(b.eq(x, b.lowest(t)), low ? Value(*low) : b.scalar(-largest(t), t), y);
}

// Mantissa in [0.5, 1) and exponent, by exact scaling with powers of two: there are devices on which no program sees
// the bits of float64.
Values frexp(Builder& b, Value x) {
  const Value one = constant(b, x, 1), none = b.zeros({DType::kS32, x.dims()});
  Value size = b.abs(x), exponent = none;
  const auto step = [&](Value where, int by) {
    size = b.select(where, scale(b, size, std::ldexp(1, -by)), size);
    exponent = b.select(where, b.add(exponent, b.scalar_int(by, DType::kS32)), exponent);
  };
  const int top = x.dtype() == DType::kF64 ? 512 : 64;
  for (int by = top; by > 0; by /= 2) step(b.ge(size, constant(b, x, std::ldexp(1, by))), by);
  step(b.ge(size, one), 1);
  for (int by = top; by > 0; by /= 2) step(b.lt(size, constant(b, x, std::ldexp(1, -by))), -by);
  const Value plain = b.and_(b.is_finite(x), b.ne(x, constant(b, x, 0)));
  return {b.select(plain, copysign(b, size, x), x), b.select(plain, exponent, none)};
}

// In float64: below zero it is the sum of two large terms, which has few digits where they cancel.
Value log_gamma(Builder& b, Value x) {
  if (x.dtype() == DType::kF64) return b.unary("chlo.lgamma", x);
  return b.convert(b.unary("chlo.lgamma", b.convert(x, DType::kF64)), x.dtype());
}

void add_exponentials(Table& ops) {
  add_unary_op<&Builder::exp>(ops, "exp");
  add_unary_op<&Builder::expm1>(ops, "expm1");
  add_unary_op<&Builder::log>(ops, "log");
  add_unary_op<&Builder::log1p>(ops, "log1p");
  add_unary_op<&Builder::sqrt>(ops, "sqrt");
  add_unary_op<&Builder::rsqrt>(ops, "rsqrt");
  add_unary_op(ops, "exp2", [](Builder& b, Value x) { return b.pow(constant(b, x, 2), x); });
  add_unary_op(ops, "log2", [](Builder& b, Value x) { return scale(b, b.log(x), std::numbers::log2e); });
  add_unary_op(ops, "log10", [](Builder& b, Value x) { return scale(b, b.log(x), std::numbers::log10e); });
  add_unary_op<&Builder::logistic>(ops, "sigmoid");
  ops.add("logit", pointwise, [](Builder& b, Value x, optional<Scalar> eps) { return logit(b, x, eps); });
  ops.add("logit_backward", pointwise,
          [](Builder& b, Value grad, Value x, optional<Scalar> eps) { return logit_backward(b, grad, x, eps); });
}

void add_trigonometry(Table& ops) {
  add_unary_op<&Builder::sin>(ops, "sin");
  add_unary_op<&Builder::cos>(ops, "cos");
  add_unary_op<&Builder::tan>(ops, "tan");
  add_unary_op<&Builder::tanh>(ops, "tanh");
  add_unary_op(ops, "asin", [](Builder& b, Value x) { return b.unary("chlo.asin", x); });
  add_unary_op(ops, "acos", [](Builder& b, Value x) { return b.unary("chlo.acos", x); });
  add_unary_op(ops, "atan", lowering<atan>);
  add_unary_op(ops, "sinh", [](Builder& b, Value x) { return b.unary("chlo.sinh", x); });
  add_unary_op(ops, "cosh", [](Builder& b, Value x) { return b.unary("chlo.cosh", x); });
  add_unary_op(ops, "asinh", [](Builder& b, Value x) { return b.unary("chlo.asinh", x); });
  add_unary_op(ops, "acosh", [](Builder& b, Value x) { return b.unary("chlo.acosh", x); });
  add_unary_op(ops, "atanh", [](Builder& b, Value x) { return b.unary("chlo.atanh", x); });
  add_unary_op(ops, "deg2rad", [](Builder& b, Value x) { return scale(b, x, std::numbers::pi / 180); });
  add_unary_op(ops, "rad2deg", [](Builder& b, Value x) { return scale(b, x, 180 / std::numbers::pi); });
  add_unary_op(ops, "sinc", [](Builder& b, Value x) {
    const Value product = scale(b, x, std::numbers::pi);
    return b.select(b.eq(x, constant(b, x, 0)), constant(b, x, 1), b.div(b.sin(product), product));
  });
}

void add_rounding(Table& ops) {
  add_unary_op<&Builder::floor>(ops, "floor");
  add_unary_op<&Builder::ceil>(ops, "ceil");
  add_unary_op<&Builder::round_even>(ops, "round");
  ops.add("round.decimals", pointwise,
          [](Builder& b, Value x, int64_t decimals) { return round_decimals(b, x, decimals); });
  add_unary_op(ops, "trunc", [](Builder& b, Value x) { return is_float(x.dtype()) ? truncate(b, x) : x; });
  add_unary_op(ops, "frac", [](Builder& b, Value x) { return b.sub(x, truncate(b, x)); });
}

// The compiler's is right to 5e-6 only: one step of Newton's, on the complement, which is exact where erf is near 1.
Value erf_inv(Builder& b, Value y) {
  const Value one = constant(b, y, 1), size = b.abs(y), guess = b.abs(b.unary("chlo.erf_inv", y));
  const Value miss = b.select(b.lt(size, constant(b, y, 0.5)), b.sub(size, b.unary("chlo.erf", guess)),
                              b.sub(b.unary("chlo.erfc", guess), b.sub(one, size)));
  const Value slope = b.mul(constant(b, y, 2 * std::numbers::inv_sqrtpi), b.exp(b.neg(b.mul(guess, guess))));
  const Value better = b.add(guess, b.div(miss, slope));
  return copysign(b, b.select(b.is_finite(better), better, guess), y);
}

void add_complex(Table& ops) {
  add_unary_op(ops, "conj_physical", lowering<conj>);
  add_unary_op(ops, "angle", lowering<angle>);
  ops.add("complex", exact, [](Builder& b, Value re, Value im) { return b.complex(re, im); });
  ops.add("polar", pointwise, [](Builder& b, Value radius, Value angle) {
    return b.complex(b.mul(radius, b.cos(angle)), b.mul(radius, b.sin(angle)));
  });
}

}  // namespace

void add_unary(Table& ops) {
  add_exponentials(ops);
  add_trigonometry(ops);
  add_rounding(ops);
  add_complex(ops);
  add_unary_op<&Builder::abs>(ops, "abs");
  add_unary_op<&Builder::neg>(ops, "neg");
  add_unary_op(ops, "sign", lowering<sign>);
  add_unary_op(ops, "sgn", lowering<sign>);
  add_unary_op(ops, "reciprocal", [](Builder& b, Value x) { return b.div(constant(b, x, 1), x); });
  add_unary_op(ops, "erf", [](Builder& b, Value x) { return b.unary("chlo.erf", x); });
  add_unary_op(ops, "erfc", [](Builder& b, Value x) { return b.unary("chlo.erfc", x); });
  add_unary_op(ops, "erfinv", lowering<erf_inv>);
  add_unary_op(ops, "lgamma", lowering<log_gamma>);
  ops.add("frexp.Tensor", pointwise, lowering<frexp>);
  ops.add("nan_to_num", exact,
          [](Builder& b, Value x, optional<Scalar> nan, optional<Scalar> high, optional<Scalar> low) {
            return replace_special(b, x, nan, high, low);
          });
}

}  // namespace tpu::ops
