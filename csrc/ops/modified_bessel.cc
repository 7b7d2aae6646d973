// Modified Bessel functions of orders 0 and 1, of the first (I) and second kind (K).
#include <limits>

#include "ops/approximation.h"
#include "ops/families.h"

namespace tpu::ops {
namespace {

// Chebyshev series. Those of I were computed to 40 digits and rounded, those of K are Cephes'.
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
// K0(x) + log(x / 2) I0(x), and x (K1(x) - log(x / 2) I1(x)), for x^2 = 2 (t + 1).
// exp(x) sqrt(x) K(x) for x = 4 / (t + 1).
constexpr double kK0Small[] = {
    -0.2676636966169514,    0.3442898999246285,    0.0359799365153615,     0.001264615411446926, 2.286212103119452e-05,
    2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633842e-11, 4.25981614279661e-14, 1.374465435613523e-16};
constexpr double kK0Large[] = {
    1.2201515410329777,     -0.0314481013119645,     0.0015698838857300533,  -0.00012849549581627802,
    1.39498137188765e-05,   -1.8317555227191195e-06, 2.766813639445015e-07,  -4.660489897687948e-08,
    8.574034017414225e-09,  -1.69753450938906e-09,   3.577397281400301e-10,  -7.957489244477107e-11,
    1.8559491149547177e-11, -4.514597883373944e-12,  1.140340588208475e-12,  -2.9800969231727303e-13,
    8.032890775363575e-14,  -2.2275133269916698e-14, 6.3400764774050706e-15, -1.848593377343779e-15,
    5.512055978524319e-16,  -1.678231096805412e-16,  5.2103915050390274e-17, -1.6475804301524212e-17,
    5.300433772686263e-18};
constexpr double kK1Small[] = {0.7626501136694739,     -0.3531559607765449,     -0.12261118082265715,
                               -0.006975723859639864,  -0.0001730288957513052,  -2.4334061415659684e-06,
                               -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
                               -2.427449850519366e-15, -7.023863479386288e-18};
constexpr double kK1Large[] = {
    1.3603130952422213,      0.10392373657681724,    -0.002857816859622779,   0.00019521551847135162,
    -1.936197974166083e-05,  2.406484947837217e-06,  -3.5019606030878126e-07, 5.7410841254500495e-08,
    -1.0345762465678097e-08, 2.015049755197033e-09,  -4.1903547593418965e-10, 9.218315187605006e-11,
    -2.1299678384275683e-11, 5.13963967348173e-12,   -1.2891739609510289e-12, 3.3484196660784293e-13,
    -8.976705182324994e-14,  2.4771544244813043e-14, -7.019837090418314e-15,  2.038703165624334e-15,
    -6.057047248373319e-16,  1.838093544366639e-16,  -5.689462558442859e-17,  1.7940508731475592e-17,
    -5.756744483665017e-18};

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

template <int kOrder>
Value scaled_bessel_k(Builder& b, Value x) {
  const Value half = scale(b, x, 0.5), logarithm = b.log(half);
  const Value series = chebyshev(b, offset(b, scale(b, b.mul(x, x), 0.5), -1),
                                 kOrder == 0 ? std::span<const double>(kK0Small) : kK1Small);
  const Value product = b.mul(logarithm, bessel_i<kOrder>(b, x));
  const Value small = kOrder == 0 ? b.sub(series, product) : b.add(b.div(series, x), product);
  const Value t = offset(b, b.div(constant(b, x, 4), x), -1);
  const Value large = chebyshev(b, t, kOrder == 0 ? std::span<const double>(kK0Large) : kK1Large);
  const Value zero = constant(b, x, 0);
  const Value y = b.select(b.le(x, constant(b, x, 2)), b.mul(small, b.exp(x)), b.div(large, b.sqrt(x)));
  const Value nan = constant(b, x, std::numeric_limits<double>::quiet_NaN());
  return b.select(b.eq(x, zero), b.highest(x.dtype()), b.select(b.lt(x, zero), nan, y));
}
template <int kOrder>
Value bessel_k(Builder& b, Value x) {
  return b.mul(scaled_bessel_k<kOrder>(b, x), b.exp(b.neg(x)));
}

}  // namespace

void add_modified_bessel(Table& ops) {
  ops.add("i0", pointwise, lowering<bessel_i<0>>);
  ops.add("special_i0e", pointwise, lowering<scaled_bessel_i<0>>);
  ops.add("special_i1", pointwise, lowering<bessel_i<1>>);
  ops.add("special_i1e", pointwise, lowering<scaled_bessel_i<1>>);
  ops.add("special_modified_bessel_i0", pointwise, lowering<bessel_i<0>>);
  ops.add("special_modified_bessel_i1", pointwise, lowering<bessel_i<1>>);
  ops.add("special_modified_bessel_k0", pointwise, lowering<bessel_k<0>>);
  ops.add("special_modified_bessel_k1", pointwise, lowering<bessel_k<1>>);
  ops.add("special_scaled_modified_bessel_k0", pointwise, lowering<scaled_bessel_k<0>>);
  ops.add("special_scaled_modified_bessel_k1", pointwise, lowering<scaled_bessel_k<1>>);
}

}  // namespace tpu::ops
