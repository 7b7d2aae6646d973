// Special functions. The Chebyshev coefficients are those of the function named, computed to 40 digits and rounded.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/approximation.h"
#include "ops/families.h"
#include "ops/float_bits.h"

namespace tpu::ops {
namespace {

Value erfc(Builder& b, Value x) { return b.unary("chlo.erfc", x); }

// (1 + 2 x) exp(x^2) erfc(x) for x = 3.75 (1 + t) / (1 - t).
constexpr double kErfcx[] = {
    1.1775789345674018,     -4.5900545806464773e-3,  -8.4249133366517916e-2,  5.920993999819189e-2,
    -2.6658668435305752e-2, 9.0749976707052651e-3,   -2.4131635404176082e-3,  4.9077583652580863e-4,
    -6.9169733025012064e-5, 4.1390279860730102e-6,   7.7403830661984907e-7,   -2.1886401049234396e-7,
    1.076499946567091e-8,   4.5219598112182869e-9,   -7.7544002088313511e-10, -6.3180883408866845e-11,
    2.8687950109306699e-11, 1.9455868545777347e-13,  -9.6546967484334389e-13, 3.2525481481487398e-14,
    3.3478119482868054e-14, -1.8645628804193131e-15, -1.2507950530688647e-15, 7.4182352566240435e-17,
    5.0681489047961113e-17};

Value erfcx(Builder& b, Value x) {
  const Value size = b.abs(x), zero = constant(b, x, 0);
  // t from 1 - t, exact enough where x is large.
  const Value t = b.sub(constant(b, x, 1), b.div(constant(b, x, 7.5), offset(b, size, 3.75)));
  const Value right = b.div(chebyshev(b, t, kErfcx), offset(b, b.add(size, size), 1));
  const Value left = b.sub(scale(b, b.exp(b.mul(x, x)), 2), right);
  return b.select(b.lt(x, zero), left, right);
}

Value log_ndtr(Builder& b, Value x) {
  const Value scaled = scale(b, x, -std::numbers::sqrt2 / 2);
  const Value far = b.sub(b.log(scale(b, erfcx(b, scaled), 0.5)), scale(b, b.mul(x, x), 0.5));
  const Value near = b.log1p(scale(b, erfc(b, b.neg(scaled)), -0.5));
  return b.select(b.lt(x, constant(b, x, -1)), far, near);
}

// From an approximation with an error of 5e-4 (Abramowitz and Stegun 26.2.23) by Halley's steps.
Value ndtri(Builder& b, Value p) {
  const Value half = constant(b, p, 0.5), one = constant(b, p, 1), zero = constant(b, p, 0);
  const Value tail = b.min(p, b.sub(one, p));
  const Value t = b.sqrt(scale(b, b.log(tail), -2));
  const Value above = offset(b, b.mul(offset(b, scale(b, t, 0.010328), 0.802853), t), 2.515517);
  Value below = offset(b, scale(b, t, 0.001308), 0.189269);
  below = offset(b, b.mul(offset(b, b.mul(below, t), 1.432788), t), 1);
  Value x = b.sub(b.div(above, below), t);  // negative
  for (int i = 0; i < 2; ++i) {
    const Value lower = scale(b, erfc(b, scale(b, x, -std::numbers::sqrt2 / 2)), 0.5);
    const Value density = scale(b, b.exp(scale(b, b.mul(x, x), -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    const Value e = b.div(b.sub(lower, tail), density);
    x = b.sub(x, b.div(e, offset(b, scale(b, b.mul(x, e), 0.5), 1)));
  }
  x = b.select(b.gt(p, half), b.neg(x), x);
  x = b.select(b.eq(p, zero), b.lowest(p.dtype()), b.select(b.eq(p, one), b.highest(p.dtype()), x));
  const Value outside = b.or_(b.lt(p, zero), b.gt(p, one));
  return b.select(outside, constant(b, p, std::nan("")), x);
}

Value entropy(Builder& b, Value x) {
  const Value zero = constant(b, x, 0);
  const Value inside = b.select(b.eq(x, zero), b.zeros_like(x), b.neg(b.mul(x, b.log(x))));
  return b.select(b.lt(x, zero), b.lowest(x.dtype()), inside);
}

// cot(pi x), from the distance to the nearest integer.
Value cotangent(Builder& b, Value x) {
  const Value angle = scale(b, b.sub(x, b.round_even(x)), std::numbers::pi);
  return b.div(b.cos(angle), b.sin(angle));
}

Value is_whole(Builder& b, Value x) { return b.eq(b.floor(x), x); }

// Below zero from beyond one, by reflection.
Value digamma(Builder& b, Value x) {
  const Value zero = b.zeros_like(x), negative = b.lt(x, zero);
  const Value above = b.unary("chlo.digamma", b.select(negative, b.sub(b.full_like(x, 1), x), x));
  const Value reflected = b.sub(above, scale(b, cotangent(b, x), std::numbers::pi));
  const Value nan = b.full_like(x, std::numeric_limits<double>::quiet_NaN());
  const Value below = b.select(is_whole(b, x), nan, reflected);
  const Value pole = copysign(b, b.full_like(x, std::numeric_limits<double>::infinity()), b.neg(x));
  return b.select(b.eq(x, zero), pole, b.select(negative, below, above));
}

// Hurwitz'. Below zero the terms (q + k)^-x are summed around the nearest pole, from which the distance is exact. Its
// own and the next, which may all but cancel, come first; then those to the right, and those to the left as far as q
// itself.
Value zeta(Builder& b, Value x, Value q) {
  const Value one = b.full_like(q, 1), two = b.full_like(q, 2), zero = b.zeros_like(q), negative = b.lt(q, zero);
  const auto sum = [&](Value from) { return b.binary("chlo.zeta", x, b.select(negative, from, q)); };
  const auto term = [&](Value from) { return b.pow(from, b.neg(x)); };
  const Value away = b.sub(q, b.round_even(q)), size = b.abs(away), is_left = b.lt(away, zero);
  const Value odd = b.not_(is_whole(b, scale(b, x, 0.5)));
  const auto signed_term = [&](Value v, Value minus) { return b.select(b.and_(odd, minus), b.neg(v), v); };
  const Value nearest = b.add(signed_term(term(size), is_left), signed_term(term(b.sub(one, size)), b.not_(is_left)));
  const Value right = sum(b.add(b.select(is_left, two, one), away));
  const Value left = b.sub(sum(b.sub(b.select(is_left, one, two), away)), sum(b.sub(one, q)));
  const Value below = b.add(nearest, b.add(right, b.select(odd, b.neg(left), left)));
  const Value nan = b.full_like(q, std::nan(""));
  const Value infinite = b.or_(b.eq(x, one), b.and_(b.le(q, zero), is_whole(b, q)));
  const Value result = b.select(negative, b.select(is_whole(b, x), below, nan), right);
  return b.select(b.lt(x, one), nan,
                  b.select(infinite, b.full_like(q, std::numeric_limits<double>::infinity()), result));
}

Value polygamma(Builder& b, int64_t n, Value x) {
  if (n == 0) return digamma(b, x);
  const double sign = n % 2 == 1 ? 1 : -1;
  const Value sum = zeta(b, b.full_like(x, static_cast<double>(n) + 1), x);
  const Value result = scale(b, sum, sign * std::tgamma(static_cast<double>(n) + 1));
  if (n != 1) return result;
  const Value far = b.select(b.gt(x, b.zeros_like(x)), b.zeros_like(x), b.full_like(x, std::nan("")));
  return b.select(b.eq(b.abs(x), b.full_like(x, std::numeric_limits<double>::infinity())), far, result);
}

}  // namespace

void add_special(Table& ops) {
  ops.add("special_erfcx", pointwise, lowering<erfcx>);
  ops.add("special_log_ndtr", pointwise, lowering<log_ndtr>);
  ops.add("special_ndtri", pointwise, lowering<ndtri>);
  ops.add("special_entr", pointwise, lowering<entropy>);
  ops.add("digamma", pointwise, lowering<digamma>);
  ops.add("polygamma", pointwise, lowering<polygamma>);
  ops.add("special_zeta", pointwise, lowering<zeta>);
  ops.add("special_xlog1py", pointwise, [](Builder& b, Value x, Value y) {
    const Value zero = b.zeros_like(x);
    return b.select(b.is_nan(y), y, b.select(b.eq(x, zero), zero, b.mul(x, b.log1p(y))));
  });
}

}  // namespace tpu::ops
