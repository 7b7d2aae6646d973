// The regularized incomplete gamma functions.
#include <limits>

#include "ops/approximation.h"
#include "ops/families.h"
#include "ops/reducing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

// log(gamma(1 + a)) / a for a = 0.625 (1 + t), a Chebyshev series computed to 40 digits and rounded.
constexpr double kLogGamma[] = {
    -0.2060249505146303,    0.3342035894651765,     -0.03197254036093561,    0.004245215596515251,
    -0.000643381725809808,  0.00010452783366293018, -1.770791476978562e-05,  3.0835296380098298e-06,
    -5.474017033393513e-07, 9.856993398555524e-08,  -1.7944534745550668e-08, 3.2952869120859102e-09,
    -6.094452573373941e-10, 1.1338288338382363e-10, -2.1200495878636307e-11, 3.981350343204534e-12,
    -7.505195795335003e-13, 1.419538896389957e-13,  -2.692938476972861e-14,  5.122307874636385e-15,
    -9.766786422220764e-16, 1.8663255692381498e-16, -3.573460197646343e-17,  6.854618219772651e-18};
// Boost's Lanczos sum, scaled by exp(g).
constexpr double kLanczosG = 6.024680040776729583740234375;
constexpr double kLanczos[] = {0.006061842346248907, 0.5098416655656676, 19.519927882476175, 449.9445569063168,
                               6955.999602515376,    75999.29304014542,  601859.6171681099,  3481712.154980646,
                               14605578.087685067,   43338889.32467614,  86363131.2881386,   103794043.11634454,
                               56906521.913471565};
constexpr double kLanczosBelow[] = {1.0,         66.0,       1925.0,     32670.0,     357423.0,
                                    2637558.0,   13339535.0, 45995730.0, 105258076.0, 150917976.0,
                                    120543840.0, 39916800.0, 0.0};
// Temme's uniform expansion: of a^-k, as polynomials in eta (the highest power first).
constexpr int kPowers = 18;
constexpr double kTemme[][kPowers] = {
    {2.4361948020667415e-11, -5.830772132550426e-11, -2.551419399494625e-11, 9.14769958223679e-10,
     -4.382036018453353e-09, 1.0261809784240309e-08, 6.707853543401498e-09, -1.7665952736826078e-07,
     8.296711340953087e-07, -1.85406221071516e-06, -2.1854485106799924e-06, 3.919263178522438e-05,
     -0.0001787551440329218, 0.0003527336860670194, 0.0011574074074074073, -0.014814814814814815, 0.08333333333333333,
     -0.3333333333333333},
    {6.067215101604758e-14, -8.56390702649298e-11, 4.162792991842583e-10, -1.0091543710600413e-09,
     -1.7543241719747647e-11, 1.1951628599778148e-08, -5.752545603517705e-08, 1.378633446915721e-07,
     4.647127802807434e-09, -1.6120900894563446e-06, 7.64916091608111e-06, -1.8098550334489977e-05,
     -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596, 0.0026455026455026454,
     -0.003472222222222222, -0.001851851851851852},
    {-5.5645956134363323e-11, 1.2872252400089318e-10, 9.428356159014678e-13, -1.3670488396617112e-09,
     6.228974084922022e-09, -1.409252991086752e-08, -2.0477098421990866e-10, 1.4280614206064242e-07,
     -6.298992138380055e-07, 1.3721957309062932e-06, 3.423578734096138e-08, -1.2760635188618728e-05,
     5.2923448829120125e-05, -0.00010736653226365161, 2.0093878600823047e-06, 0.0007716049382716049,
     -0.0026813271604938273, 0.004133597883597883},
    {-1.388823336813903e-14, 2.1541049775774907e-10, -9.460496661855133e-10, 2.0620131815488797e-09,
     2.3928620439808118e-12, -1.9111168485973655e-08, 8.099464905388083e-08, -1.6958404091930278e-07,
     -2.7861080291528143e-11, 1.4230900732435883e-06, -5.6749528269915965e-06, 1.1082654115347302e-05,
     -2.396505113867297e-07, -7.561801671883977e-05, 0.00026772063206283885, -0.0004691894943952557,
     0.00022947209362139917, 0.0006494341563786008},
    {1.86023389685045e-10, -3.9409233028046403e-10, -2.3024517174528067e-13, 3.4463580499464896e-09,
     -1.4189739437803219e-08, 2.8865829742708783e-08, 2.956794137544049e-11, -2.292934834000805e-07,
     8.907507532205309e-07, -1.6954149536558305e-06, 2.507497226237533e-10, 1.1375726970678419e-05,
     -3.968365047179435e-05, 6.641498215465122e-05, -1.4638452578843418e-06, -0.0002990724803031902,
     0.0007840392217200666, -0.0008618882909167117},
    {5.192679165254041e-15, -7.840924253697429e-10, 3.162417628774568e-09, -6.306194500013523e-09,
     -1.7989466721743514e-14, 4.8240967037894184e-08, -1.8447187191171344e-07, 3.4652846491085265e-07,
     -3.252473551298454e-10, -2.291481176508095e-06, 8.018470256334202e-06, -1.3594048189768693e-05,
     1.419062920643967e-07, 6.797780477937208e-05, -0.00019932570516188847, 0.0002772753244959392,
     -6.972813758365858e-05, -0.00033679855336635813},
    {-8.575492823577594e-10, 1.6846058979264062e-09, 8.649648858010293e-14, -1.2545415020710382e-08,
     4.7435958880408125e-08, -8.828600746330484e-08, 2.338630673826657e-13, 5.788792863149004e-07,
     -2.0291327396058603e-06, 3.465155368803609e-06, -3.0796134506033047e-09, -1.8329116582843375e-05,
     5.61168275310625e-05, -8.153969367561969e-05, 7.902353232660328e-07, 0.0002708782096718045, -0.0005921664373536939,
     0.0005313079364639922}};

constexpr double kLargeOrder = 200;  // from here on, Temme's expansion where x is near a
constexpr double kNear = 0.3;
constexpr int kMostSteps = 2000;

double precision_of(DType dtype) {
  return dtype == DType::kF64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// log(x / a) - (x / a - 1)
Value log_minus(Builder& b, Value a, Value x) {
  constexpr double kAtanh[] = {1.0 / 35, 1.0 / 33, 1.0 / 31, 1.0 / 29, 1.0 / 27, 1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19,
                               1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  const Value u = b.div(b.sub(x, a), a), r = b.div(u, offset(b, u, 2)), square = b.mul(r, r);
  const Value cubes = scale(b, b.mul(b.mul(square, r), polynomial(b, square, kAtanh)), 2);
  const Value near = b.sub(cubes, b.mul(u, r));
  return b.select(b.lt(b.abs(u), constant(b, u, 0.5)), near, b.sub(b.log(b.div(x, a)), u));
}

// x^a exp(-x) / gamma(a)
Value prefactor(Builder& b, Value a, Value x) {
  const Value g = offset(b, a, kLanczosG - 0.5);
  const Value sum = b.div(polynomial(b, a, kLanczos), polynomial(b, a, kLanczosBelow));
  const Value head = b.div(b.sqrt(scale(b, g, 1 / std::numbers::e)), sum);
  const Value small = b.mul(head, b.mul(b.exp(b.sub(a, x)), b.pow(b.div(x, g), a)));
  // Stirling's series
  constexpr double kStirling[] = {-691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  const Value inverse = b.div(constant(b, a, 1), a);
  const Value correction = b.mul(inverse, polynomial(b, b.mul(inverse, inverse), kStirling));
  const Value decay = b.mul(a, log_minus(b, a, x));
  const Value size = b.sqrt(scale(b, a, 1 / (2 * std::numbers::pi)));
  const Value large = b.mul(size, b.exp(b.sub(decay, correction)));
  return b.select(b.lt(a, constant(b, a, 20)), small, large);
}

// Iterates elements until each has converged; what an element ends with does not depend on the others. `step` gets the
// number of the step from 1 on, and the state; `going` says which elements go on.
template <typename Going, typename Step>
Values iterate(Builder& b, Values state, Going going, Step step) {
  state.insert(state.begin(), b.scalar(1, DType::kS32));
  const auto rest = [](const Values& s) { return Values(s.begin() + 1, s.end()); };
  const auto more = [&](const Values& s) {
    return b.and_(going(rest(s)), b.lt(s[0], b.scalar(kMostSteps, DType::kS32)));
  };
  const auto condition = [&](const Values& s) {
    const Value some = more(s);
    return Values{b.reduce(Reduce::kOr, some, all_dims(some))};
  };
  const auto body = [&](const Values& s) {
    const Value go = more(s);
    const Values next = step(b.convert(s[0], s[1].dtype()), rest(s));
    Values out{b.add(s[0], b.scalar(1, DType::kS32))};
    for (size_t i = 0; i < next.size(); ++i) out.push_back(b.select(go, next[i], s[i + 1]));
    return out;
  };
  return rest(b.while_(state, condition, body));
}

// P by its power series
Value lower_series(Builder& b, Value a, Value x, Value factor, Value wanted) {
  const Value one = b.full_like(x, 1), eps = constant(b, x, precision_of(x.dtype()) / 2);
  const Values sum = iterate(
      b, {one, one}, [&](const Values& s) { return b.and_(wanted, b.gt(s[0], b.mul(eps, s[1]))); },
      [&](Value k, const Values& s) {
        const Value term = b.mul(s[0], b.div(x, b.add(a, b.broadcast_to(k, a.dims()))));
        return Values{term, b.add(s[1], term)};
      });
  return b.mul(sum[1], b.div(factor, a));
}

// Q by its continued fraction, after Lentz
Value upper_fraction(Builder& b, Value a, Value x, Value factor, Value wanted) {
  const Value one = b.full_like(x, 1), eps = constant(b, x, precision_of(x.dtype()));
  const Value start = b.add(b.sub(x, a), one), inverse = b.div(one, start);
  const Value far = b.full_like(x, x.dtype() == DType::kF64 ? 1e300 : 1e30);
  const Values found = iterate(
      b, {far, inverse, inverse, b.zeros_like(x)},
      [&](const Values& s) { return b.and_(wanted, b.gt(b.abs(b.sub(s[3], one)), eps)); },
      [&](Value k, const Values& s) {
        const Value n = b.broadcast_to(k, x.dims());
        const Value above = b.mul(n, b.sub(a, n)), below = b.add(start, b.add(n, n));
        const Value c = b.add(below, b.div(above, s[0])), d = b.div(one, b.add(b.mul(above, s[1]), below));
        const Value change = b.mul(c, d);
        return Values{c, d, b.mul(s[2], change), change};
      });
  return b.mul(factor, found[2]);
}

// Q by a power series, for small x and a
Value upper_series(Builder& b, Value a, Value x, Value wanted) {
  const Value one = b.full_like(x, 1), eps = constant(b, x, precision_of(x.dtype()) / 2);
  const Values sum = iterate(
      b, {one, b.zeros_like(x), one},
      [&](const Values& s) { return b.and_(wanted, b.gt(b.abs(s[2]), b.mul(eps, b.abs(s[1])))); },
      [&](Value k, const Values& s) {
        const Value n = b.broadcast_to(k, x.dims());
        const Value power = b.neg(b.mul(s[0], b.div(x, n))), term = b.div(power, b.add(a, n));
        return Values{power, b.add(s[1], term), term};
      });
  const Value log_gamma = b.mul(a, chebyshev(b, offset(b, scale(b, a, 1.6), -1), kLogGamma));
  const Value exponent = b.sub(b.mul(a, b.log(x)), log_gamma);
  return b.sub(b.neg(b.expm1(exponent)), b.mul(b.exp(exponent), b.mul(a, sum[1])));
}

template <bool kUpper>
Value uniform_expansion(Builder& b, Value a, Value x) {
  const bool wide = a.dtype() == DType::kF64;
  const Value distance = b.div(b.sub(x, a), a), decay = log_minus(b, a, x);
  const Value zero = constant(b, a, 0), size = b.sqrt(scale(b, decay, -2));
  const Value eta = b.select(b.lt(distance, zero), b.neg(size), size);
  const Value inverse = b.div(constant(b, a, 1), a);
  Value sum = b.zeros_like(a);
  for (int k = wide ? 6 : 2; k >= 0; --k) {
    const std::span<const double> row = kTemme[k];
    sum = b.add(b.mul(sum, inverse), polynomial(b, eta, wide ? row : row.last(9)));
  }
  const Value wave = b.mul(b.mul(b.exp(b.mul(a, decay)), sum), b.sqrt(scale(b, inverse, 0.5 / std::numbers::pi)));
  const Value z = b.mul(eta, b.sqrt(scale(b, a, 0.5)));
  const Value tail = scale(b, b.unary("chlo.erfc", kUpper ? z : b.neg(z)), 0.5);
  return kUpper ? b.add(tail, wave) : b.sub(tail, wave);
}

// P(a, x), or Q = 1 - P. Which of the two is computed depends on which is the smaller one, roughly.
template <bool kUpper>
Value incomplete_gamma(Builder& b, Value a, Value x) {
  const auto number = [&](double v) { return constant(b, x, v); };
  const Value zero = number(0), one = number(1), infinity = b.highest(x.dtype());
  const Value regular = b.and_(b.and_(b.gt(a, zero), b.lt(a, infinity)), b.and_(b.gt(x, zero), b.lt(x, infinity)));
  const Value distance = b.abs(b.div(b.sub(x, a), a));
  const Value uniform = b.and_(b.gt(a, number(kLargeOrder)), b.lt(distance, number(kNear)));
  const Value looped = b.and_(regular, b.not_(uniform));
  const Value large = b.gt(x, number(1.1));
  Value lower;
  if (kUpper) {
    const Value little = b.lt(b.div(number(-0.4), b.log(x)), a);
    const Value some = b.lt(scale(b, x, 1.1), a);
    lower = b.select(large, b.lt(x, a), b.select(b.le(x, number(0.5)), little, some));
  } else {
    lower = b.not_(b.and_(b.gt(x, one), b.gt(x, a)));
  }
  const Value factor = prefactor(b, a, x), upper = b.and_(looped, b.not_(lower));
  const Value something = b.ne(factor, zero);
  const Value p = lower_series(b, a, x, factor, b.and_(b.and_(looped, lower), something));
  const Value fraction = upper_fraction(b, a, x, factor, b.and_(b.and_(upper, large), something));
  const Value q = b.select(large, fraction, upper_series(b, a, x, b.and_(upper, b.not_(large))));
  const Value direct = kUpper ? q : p, other = b.sub(one, kUpper ? p : q);
  Value y = b.select(kUpper ? lower : b.not_(lower), other, direct);
  y = b.select(uniform, uniform_expansion<kUpper>(b, a, x), y);

  // Where one of them is zero or infinite; the other one may be NaN there.
  const Value none = number(kUpper ? 1 : 0), all = number(kUpper ? 0 : 1);
  const Value nan = number(std::numeric_limits<double>::quiet_NaN());
  y = b.select(b.or_(b.is_nan(a), b.is_nan(x)), nan, y);
  y = b.select(b.eq(x, infinity), all, y);
  y = b.select(b.eq(a, infinity), b.select(b.eq(x, infinity), nan, none), y);
  y = b.select(b.eq(x, zero), none, y);
  y = b.select(b.eq(a, zero), b.select(b.gt(x, zero), all, nan), y);
  return b.select(b.or_(b.lt(x, zero), b.lt(a, zero)), nan, y);
}

}  // namespace

void add_incomplete_gamma(Table& ops) {
  ops.add("igamma", together, lowering<incomplete_gamma<false>>);
  ops.add("igammac", together, lowering<incomplete_gamma<true>>);
}

}  // namespace tpu::ops
