// Special functions. The Chebyshev coefficients are those of the function named, computed to 40 digits and rounded.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/families.h"
#include "ops/float_bits.h"

namespace tpu::ops {
namespace {

Value constant(Builder& b, Value like, double v) { return b.scalar(v, like.dtype()); }
Value scale(Builder& b, Value x, double v) { return b.mul(x, constant(b, x, v)); }
Value offset(Builder& b, Value x, double v) { return b.add(x, constant(b, x, v)); }
Value erfc(Builder& b, Value x) { return b.unary("chlo.erfc", x); }

// exp(-x) I0(x) for x = 4 (t + 1), and times sqrt(x) for x = 16 / (t + 1).
constexpr double kI0Small[] = {
    3.3839763720473804e-1,  -3.046826723431984e-1,   1.7162090152220878e-1,  -9.4901097048047644e-2,
    4.9305284239670708e-2,  -2.3737414805899469e-2,  1.0546460394594998e-2,  -4.3243099950505759e-3,
    1.6394756169413358e-3,  -5.7637557453858237e-4,  1.8850288509584166e-4,  -5.7541950100821037e-5,
    1.6448448070728897e-5,  -4.4167383584587506e-6,  1.1173875391201037e-6,  -2.6707938539406117e-7,
    6.0469950225419189e-8,  -1.300025009986248e-8,   2.6598237246823867e-9,  -5.1897956016352629e-10,
    9.6758090353732369e-11, -1.7268262914415557e-11, 2.9550526631296398e-12, -4.8564467831119295e-13,
    7.6761854986049356e-14, -1.1685332877993452e-14, 1.715391285555133e-15,  -2.4312798465479547e-16,
    3.3307945188222381e-17, -4.4153416464793394e-18};
constexpr double kI0Large[] = {
    4.0224520550705442e-1,   3.3691164782556941e-3,   6.889758346916824e-5,    2.8913705208347565e-6,
    2.0489185894690637e-7,   2.2666689904981781e-8,   3.3962320257083863e-9,   4.9406023882249696e-10,
    1.1889147107846438e-11,  -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12,
    7.1801244513836662e-13,  3.8527783827421427e-13,  1.5400862175214098e-14,  -4.1505693472872221e-14,
    -9.5548466988283076e-15, 3.8116806693526224e-15,  1.7725601330565264e-15,  -3.4254856196772191e-16,
    -2.8276239805165835e-16, 3.4612228676974611e-17,  4.46562142029676e-17,    -4.8305044859441821e-18,
    -7.233180487874754e-18};
// exp(-x) I1(x) / x, and exp(-x) I1(x) sqrt(x), of the same.
constexpr double kI1Small[] = {
    1.2629359322181683e-1,  -1.7641651835783406e-1,  1.026436586898471e-1,   -5.2945981208094991e-2,
    2.4726449030626517e-2,  -1.0564084894626198e-2,  4.1564229443128882e-3,  -1.5135724506312531e-3,
    5.1228595616857577e-4,  -1.6176081582589675e-4,  4.7815651075500542e-5,  -1.3273163656039436e-5,
    3.4702513081376785e-6,  -8.5687202646954547e-7,  2.0032947535521353e-7,  -4.4450591287963281e-8,
    9.3815373864957718e-9,  -1.8872497517228293e-9,  3.625590281552117e-10,  -6.6634897235020277e-11,
    1.1736186298890902e-11, -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14,
    7.6006842947354069e-15, -1.1055969477353863e-15, 1.5536319577362005e-16, -2.1114212143581661e-17,
    2.7779141127610464e-18};
constexpr double kI1Large[] = {
    3.8928811750914006e-1,   -9.7610974913614684e-3,  -1.1058893876262372e-4,  -3.8825648088776904e-6,
    -2.5122362378702089e-7,  -2.6314688468895195e-8,  -3.835380385964237e-9,   -5.5897434621965838e-10,
    -1.8974958123505412e-11, 3.2526035830154882e-11,  1.4125807436613781e-11,  2.0356285441470895e-12,
    -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
    1.0420276984128803e-14,  -3.8144030724370078e-15, -1.8803547755107824e-15, 3.3082023109209283e-16,
    2.9626289976459501e-16,  -3.209525921993424e-17,  -4.6503053684893583e-17, 4.4143483230717079e-18,
    7.5172963108421048e-18};
// (1 + 2 x) exp(x^2) erfc(x) for x = 3.75 (1 + t) / (1 - t).
constexpr double kErfcx[] = {
    1.1775789345674018,     -4.5900545806464773e-3,  -8.4249133366517916e-2,  5.920993999819189e-2,
    -2.6658668435305752e-2, 9.0749976707052651e-3,   -2.4131635404176082e-3,  4.9077583652580863e-4,
    -6.9169733025012064e-5, 4.1390279860730102e-6,   7.7403830661984907e-7,   -2.1886401049234396e-7,
    1.076499946567091e-8,   4.5219598112182869e-9,   -7.7544002088313511e-10, -6.3180883408866845e-11,
    2.8687950109306699e-11, 1.9455868545777347e-13,  -9.6546967484334389e-13, 3.2525481481487398e-14,
    3.3478119482868054e-14, -1.8645628804193131e-15, -1.2507950530688647e-15, 7.4182352566240435e-17,
    5.0681489047961113e-17};

// Clenshaw's recurrence; terms below the precision of the type are left out.
Value chebyshev(Builder& b, Value t, std::span<const double> coefficients) {
  const double least = t.dtype() == DType::kF64 ? 0 : 1e-9;
  size_t n = coefficients.size();
  while (n > 1 && std::abs(coefficients[n - 1]) < least) --n;
  const Value twice = b.add(t, t);
  Value ahead = b.zeros_like(t), beyond = ahead;
  for (size_t i = n - 1; i > 0; --i) {
    const Value next = offset(b, b.sub(b.mul(twice, ahead), beyond), coefficients[i]);
    beyond = ahead, ahead = next;
  }
  return offset(b, b.sub(b.mul(t, ahead), beyond), coefficients[0]);
}

// exp(-|x|) times the modified Bessel function of order 0 or 1.
template <int kOrder>
Value scaled_bessel_i(Builder& b, Value x) {
  const Value size = b.abs(x), one = constant(b, x, 1);
  const Value t_small = b.sub(scale(b, size, 0.25), one), t_large = b.sub(b.div(constant(b, x, 16), size), one);
  Value small = chebyshev(b, t_small, kOrder == 0 ? std::span<const double>(kI0Small) : kI1Small);
  const Value large = chebyshev(b, t_large, kOrder == 0 ? std::span<const double>(kI0Large) : kI1Large);
  if (kOrder == 1) small = b.mul(small, size);
  const Value y = b.select(b.le(size, constant(b, x, 8)), small, b.div(large, b.sqrt(size)));
  return kOrder == 1 ? b.select(b.lt(x, constant(b, x, 0)), b.neg(y), y) : y;
}
template <int kOrder>
Value bessel_i(Builder& b, Value x) {
  return b.mul(scaled_bessel_i<kOrder>(b, x), b.exp(b.abs(x)));
}

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
  ops.add("i0", pointwise, lowering<bessel_i<0>>);
  ops.add("special_i0e", pointwise, lowering<scaled_bessel_i<0>>);
  ops.add("special_i1", pointwise, lowering<bessel_i<1>>);
  ops.add("special_i1e", pointwise, lowering<scaled_bessel_i<1>>);
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
