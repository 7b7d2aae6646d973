// Bessel functions of the first (J) and second kind (Y), and Airy's. Rational approximations are those of the Cephes
// library.
#include <limits>

#include "ops/approximation.h"
#include "ops/families.h"

namespace tpu::ops {
namespace {

// Modulus and phase in 25 / x^2 (P, Q), J in x^2 without its first two zeros (R), Y in x^2 without its logarithm.
constexpr double kJ0P[] = {0.0007969367292973471,
                           0.08283523921074408,
                           1.239533716464143,
                           5.447250030587687,
                           8.74716500199817,
                           5.303240382353949,
                           1.0};
constexpr double kJ0PBelow[] = {0.0009244088105588637,
                                0.08562884743544745,
                                1.2535274390105895,
                                5.470977403304171,
                                8.761908832370695,
                                5.306052882353947,
                                1.0};
constexpr double kJ0Q[] = {-0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683,
                           -177.68116798048806,   -147.07750515495118, -51.41053267665993,  -6.050143506007285};
constexpr double kJ0QBelow[] = {1.0,
                                64.3178256118178,
                                856.4300259769806,
                                3882.4018360540163,
                                7240.467741956525,
                                5930.727011873169,
                                2062.0933166032783,
                                242.0057402402914};
constexpr double kJ0R[] = {-4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0};
constexpr double kJ0RBelow[] = {1.0,
                                499.563147152651,
                                173785.4016763747,
                                48440965.83399621,
                                11185553704.535683,
                                2112775201154.892,
                                310518229857422.56,
                                3.1812195594320496e+16,
                                1.7108629408104315e+18};
constexpr double kY0[] = {15592.436785523574, -14663929.59039716,  5435264770.518765,      -982136065717.9115,
                          87590639439536.7,   -3466283033847297.0, 4.4273326857256984e+16, -1.8495080043698668e+16};
constexpr double kY0Below[] = {1.0,
                               1041.2835366425984,
                               626107.330137135,
                               268919633.39381415,
                               86400248710.3935,
                               20297961275010.555,
                               3171577528429750.5,
                               2.5059625617265306e+17};
constexpr double kJ1P[] = {0.0007621256162081731,
                           0.07313970569409176,
                           1.1271960812968493,
                           5.112079511468076,
                           8.424045901417724,
                           5.214515986823615,
                           1.0};
constexpr double kJ1PBelow[] = {0.0005713231280725487,
                                0.06884559087544954,
                                1.105142326340617,
                                5.073863861286015,
                                8.399855543276042,
                                5.209828486823619,
                                1.0};
constexpr double kJ1Q[] = {0.05108625947501766, 4.982138729512334, 75.82382841325453,  366.7796093601508,
                           710.8563049989261,   597.4896124006136, 211.68875710057213, 25.207020585802372};
constexpr double kJ1QBelow[] = {1.0,
                                74.23732770356752,
                                1056.4488603826283,
                                4986.410583376536,
                                9562.318924047562,
                                7997.041604473507,
                                2826.1927851763908,
                                336.0936078106983};
constexpr double kJ1R[] = {-899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0};
constexpr double kJ1RBelow[] = {1.0,
                                620.8364781180543,
                                256987.25675774884,
                                83514679.14319493,
                                22151159547.97925,
                                4749141220799.914,
                                784369607876235.9,
                                8.952223361846274e+16,
                                5.322786203326801e+18};
constexpr double kY1[] = {1263204747.9017804,  -647355876379.1603,    114509511541823.73,
                          -8127702555013251.0, 2.024394757135949e+17, -7.788771962659501e+17};
constexpr double kY1Below[] = {1.0,
                               594.3015923461282,
                               235564.09294306856,
                               73481194.44597217,
                               18760131610.870617,
                               3882312774962.3857,
                               620557727146953.8,
                               6.871410873553005e+16,
                               3.9727060811656064e+18};
// Of x^3: the two Maclaurin series of Ai, the second one divided by x.
constexpr double kAiryEven[] = {2.159903592492397e-26,  2.280858193671971e-23,  1.984346628494615e-20,
                                1.3930113332032197e-17, 7.689422559281772e-15,  3.2295574748983444e-12,
                                9.882445873188935e-10,  2.0753136333696763e-07, 2.7394139960479725e-05,
                                0.00197237807715454,    0.05917134231463621,    0.3550280538878172};
constexpr double kAiryOdd[] = {-2.0378443682136668e-27, -2.286461381135734e-24, -2.1264090844562326e-21,
                               -1.6075652678489119e-18, -9.645391607093471e-16, -4.456170922477184e-13,
                               -1.5240104554871968e-10, -3.657625093169273e-08, -5.705895145344065e-06,
                               -0.0005135305630809659,  -0.021568283649400565,  -0.2588194037928068};
// exp(2/3 x^(3/2)) Ai(x) for x = 1.3 + 0.8 t, computed to 40 digits and rounded.
constexpr double kAiryMiddle[] = {
    0.25565648934580654,    -0.031886341916699854,   0.004710018360598986,   -0.0008249820779382237,
    0.0001579533836875768,  -3.2301130630743054e-05, 6.984849378897262e-06,  -1.5866769121755985e-06,
    3.7646513502993924e-07, -9.279118534510761e-08,  2.3638571090426703e-08, -6.1953239400401566e-09,
    1.663716986714755e-09,  -4.5621210986513224e-10, 1.273688061562213e-10,  -3.611718592653965e-11,
    1.0381054530685264e-11, -3.0193545629183e-12,    8.874007337305859e-13,  -2.63235140505481e-13,
    7.873196663435147e-14,  -2.3723077194604482e-14, 7.195919621137356e-15,  -2.195954982197055e-15,
    6.738220887396789e-16,  -2.0779969562279854e-16, 6.437853234265843e-17,  -2.0029675522022056e-17};
// Beyond: of 1 / zeta on the right, of 1 / zeta^2 on the left.
constexpr double kAiryRight[] = {0.346538101525629,  12.007595273964581, 76.27960536152345,  168.08922493463058,
                                 159.75639135016442, 70.53609068404442,  14.026469116338967, 1.0};
constexpr double kAiryRightBelow[] = {0.5675945326387702, 14.75625625848472, 84.51389701414746,  177.31808814540045,
                                      164.2346928715297,  71.47784008255756, 14.095913560783403, 1.0};
constexpr double kAiryCos[] = {-0.1316963234183318,    -0.6264565444319123,    -0.6931580360369335,
                               -0.2797799815451191,    -0.04919001326095003,   -0.004062659235948854,
                               -0.0001592764962392621, -2.776491081552329e-06, -1.6778769848911465e-08};
constexpr double kAiryCosBelow[] = {1.0,
                                    13.356042070655324,
                                    32.682503279522464,
                                    26.736704094149957,
                                    9.187074029072596,
                                    1.4752914677166642,
                                    0.11568717379518804,
                                    0.004402916416152112,
                                    7.547203482874142e-05,
                                    4.5185009297058035e-07};
constexpr double kAirySin[] = {0.01973399320916857,  0.39110302961568827,   1.0657989759959559,   0.9391692298166502,
                               0.35146565610554764,  0.06338889196289255,   0.005858041130483885, 0.000282851600836737,
                               6.98793669997261e-06, 8.117892395543892e-08, 3.415517847659236e-10};
constexpr double kAirySinBelow[] = {1.0,
                                    9.30892908077442,
                                    19.835292871831214,
                                    15.564662893286462,
                                    5.476860694229755,
                                    0.9542936116189619,
                                    0.08645808263523921,
                                    0.004126565238242226,
                                    0.00010125908511650914,
                                    1.1716673321441352e-06,
                                    4.9183457006293e-09};

Value ratio(Builder& b, Value x, std::span<const double> above, std::span<const double> below) {
  return b.div(polynomial(b, x, above), polynomial(b, x, below));
}

// The sine and cosine of x + pi / 4, without rounding the sum.
struct Turned {
  Value sine, cosine;
};
Turned turned(Builder& b, Value x) {
  const Value s = b.sin(x), c = b.cos(x);
  return {scale(b, b.add(s, c), std::numbers::sqrt2 / 2), scale(b, b.sub(c, s), std::numbers::sqrt2 / 2)};
}

// J and Y for x > 5.
struct Waves {
  Value j, y;
};
template <int kOrder>
Waves waves(Builder& b, Value x) {
  const Value inverse = b.div(constant(b, x, 5), x), t = b.mul(inverse, inverse);
  const Value p = kOrder == 0 ? ratio(b, t, kJ0P, kJ0PBelow) : ratio(b, t, kJ1P, kJ1PBelow);
  const Value q = b.mul(inverse, kOrder == 0 ? ratio(b, t, kJ0Q, kJ0QBelow) : ratio(b, t, kJ1Q, kJ1QBelow));
  // The phase is x - pi / 4, or x - 3 pi / 4.
  const Turned at = turned(b, x);
  const Value cosine = kOrder == 0 ? at.sine : b.neg(at.cosine), sine = kOrder == 0 ? b.neg(at.cosine) : b.neg(at.sine);
  const Value size = b.sqrt(b.div(constant(b, x, 2 / std::numbers::pi), x));
  return {b.mul(size, b.sub(b.mul(p, cosine), b.mul(q, sine))), b.mul(size, b.add(b.mul(p, sine), b.mul(q, cosine)))};
}

// J for 0 <= x <= 5.
template <int kOrder>
Value small_j(Builder& b, Value x) {
  constexpr double kFirst = kOrder == 0 ? 5.783185962946784521176 : 14.68197064212389325720;
  constexpr double kSecond = kOrder == 0 ? 30.47126234366208639908 : 49.21845632169460367027;
  const Value z = b.mul(x, x);
  const Value zeros = b.mul(offset(b, z, -kFirst), offset(b, z, -kSecond));
  if (kOrder == 0) return b.mul(zeros, ratio(b, z, kJ0R, kJ0RBelow));
  return b.mul(b.mul(x, zeros), ratio(b, z, kJ1R, kJ1RBelow));
}

template <int kOrder>
Value bessel_j(Builder& b, Value x) {
  const Value size = b.abs(x);
  const Value y = b.select(b.le(size, constant(b, x, 5)), small_j<kOrder>(b, size), waves<kOrder>(b, size).j);
  return kOrder == 1 ? b.select(b.lt(x, constant(b, x, 0)), b.neg(y), y) : y;
}

template <int kOrder>
Value bessel_y(Builder& b, Value x) {
  const Value zero = constant(b, x, 0), z = b.mul(x, x), j = small_j<kOrder>(b, x), logarithm = b.log(x);
  const Value small =
      kOrder == 0 ? b.add(ratio(b, z, kY0, kY0Below), scale(b, b.mul(logarithm, j), 2 / std::numbers::pi))
                  : b.add(b.mul(x, ratio(b, z, kY1, kY1Below)),
                          scale(b, b.sub(b.mul(j, logarithm), b.div(constant(b, x, 1), x)), 2 / std::numbers::pi));
  const Value y = b.select(b.le(x, constant(b, x, 5)), small, waves<kOrder>(b, x).y);
  const Value nan = constant(b, x, std::numeric_limits<double>::quiet_NaN());
  return b.select(b.eq(x, zero), b.lowest(x.dtype()), b.select(b.lt(x, zero), nan, y));
}

Value spherical_bessel_j0(Builder& b, Value x) {
  constexpr double kSeries[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1};
  const Value size = b.abs(x);
  const Value y = b.select(b.lt(size, constant(b, x, 0.5)), polynomial(b, b.mul(x, x), kSeries), b.div(b.sin(x), x));
  return b.select(b.eq(size, b.highest(x.dtype())), constant(b, x, 0), y);
}

Value airy(Builder& b, Value x) {
  const Value one = constant(b, x, 1), cube = b.mul(b.mul(x, x), x);
  const Value near = b.add(polynomial(b, cube, kAiryEven), b.mul(x, polynomial(b, cube, kAiryOdd)));
  const Value size = b.abs(x), root = b.sqrt(size);
  const Value zeta = scale(b, b.mul(size, root), 2.0 / 3), inverse = b.div(one, zeta), z = b.mul(inverse, inverse);
  const Value height = b.div(constant(b, x, std::numbers::inv_sqrtpi), b.sqrt(root));
  const Value middle = chebyshev(b, scale(b, offset(b, x, -1.3), 1.25), kAiryMiddle);
  const Value far = scale(b, b.mul(height, ratio(b, inverse, kAiryRight, kAiryRightBelow)), 0.5);
  const Value right = b.mul(b.select(b.lt(x, constant(b, x, 2.1)), middle, far), b.exp(b.neg(zeta)));
  const Turned phase = turned(b, zeta);
  const Value sine = b.mul(phase.sine, b.add(one, b.mul(z, ratio(b, z, kAiryCos, kAiryCosBelow))));
  const Value cosine = b.mul(phase.cosine, b.mul(inverse, ratio(b, z, kAirySin, kAirySinBelow)));
  const Value left = b.mul(height, b.sub(sine, cosine));
  const Value y = b.select(b.gt(x, constant(b, x, 0.5)), right, near);
  const Value nan = constant(b, x, std::numeric_limits<double>::quiet_NaN());
  return b.select(b.eq(size, b.highest(x.dtype())), nan, b.select(b.lt(x, constant(b, x, -2.09)), left, y));
}

}  // namespace

void add_bessel(Table& ops) {
  ops.add("special_bessel_j0", pointwise, lowering<bessel_j<0>>);
  ops.add("special_bessel_j1", pointwise, lowering<bessel_j<1>>);
  ops.add("special_bessel_y0", pointwise, lowering<bessel_y<0>>);
  ops.add("special_bessel_y1", pointwise, lowering<bessel_y<1>>);
  ops.add("special_spherical_bessel_j0", pointwise, lowering<spherical_bessel_j0>);
  ops.add("special_airy_ai", pointwise, lowering<airy>);
}

}  // namespace tpu::ops
