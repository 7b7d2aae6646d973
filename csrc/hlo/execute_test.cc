// Constants and elementwise operations.
#include "hlo/execute_test.h"

namespace tpu::hlo {
namespace {

using namespace execute;  // NOLINT

constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
constexpr DType kInts[] = {DType::kS8, DType::kS16, DType::kS32, DType::kS64,
                           DType::kU8, DType::kU16, DType::kU32, DType::kU64};

}  // namespace

TEST_CASE("constants") {
  for (DType t : kFloats) {
    same(run(t, {0},
             [&](Builder& b, Value) {
               return Values{b.scalar(-0.75, t), b.scalar(kInf, t), b.lowest(t),
                             b.scalar(kNaN, t),  b.full(3, t, {2}), b.array(std::vector<int64_t>{1, -2}, t)};
             }),
         {-0.75, kInf, -kInf, kNaN, 3, 3, 1, -2});
  }
  same(run(DType::kF32, {0},
           [](Builder& b, Value) {
             return Values{b.scalar_int(-1, DType::kU8),
                           b.lowest(DType::kS16),
                           b.highest(DType::kS32),
                           b.highest(DType::kBool),
                           b.scalar_complex({1, -kInf}, DType::kC64),
                           b.scalar(1e9, DType::kF8E4M3FN),
                           b.scalar(0.1, DType::kF32),
                           b.full(7.9, DType::kS64, {1})};
           }),
       {255, -32768, 2147483647, 1, 1, -kInf, 448, 0.1f, 7});
}

TEST_CASE("float arithmetic") {
  for (DType t : kFloats) {
    const double tolerance = t == DType::kF64 ? 1e-13 : t == DType::kF32 ? 2e-6 : t == DType::kF16 ? 2e-3 : 2e-2;
    const V x = {0.5, 2, 1.5, 4};
    const auto each = [&](double (*f)(double)) {
      V v;
      for (double e : x) v.push_back(f(e));
      return v;
    };
    same(run(t, x,
             [](Builder& b, Value v) {
               return Values{b.exp(v),
                             b.expm1(v),
                             b.log(v),
                             b.log1p(v),
                             b.sqrt(v),
                             b.cbrt(v),
                             b.tanh(v),
                             b.sin(v),
                             b.cos(v),
                             b.tan(v),
                             b.unary("chlo.erf", v),
                             b.rsqrt(v),
                             b.logistic(v)};
             }),
         each(std::exp) + each(std::expm1) + each(std::log) + each(std::log1p) + each(std::sqrt) + each(std::cbrt) +
             each(std::tanh) + each(std::sin) + each(std::cos) + each(std::tan) + each(std::erf) +
             each([](double e) { return 1 / std::sqrt(e); }) + each([](double e) { return 1 / (1 + std::exp(-e)); }),
         tolerance);
    same(run(t, {-2.5, -0.5, 1.5, 2.5, kNaN, kInf},
             [](Builder& b, Value v) {
               return Values{b.neg(v),        b.abs(v),        b.sign(v),      b.floor(v), b.ceil(v),
                             b.round_even(v), b.round_away(v), b.is_finite(v), b.is_nan(v)};
             }),
         V{2.5, 0.5, -1.5, -2.5, kNaN, -kInf} + V{2.5, 0.5, 1.5, 2.5, kNaN, kInf} + V{-1, -1, 1, 1, kNaN, 1} +
             V{-3, -1, 1, 2, kNaN, kInf} + V{-2, 0, 2, 3, kNaN, kInf} + V{-2, 0, 2, 2, kNaN, kInf} +
             V{-3, -1, 2, 3, kNaN, kInf} + V{1, 1, 1, 1, 0, 0} + V{0, 0, 0, 0, 1, 0});
    same(run({{t, {4}, {7, -7, 2, kNaN}}, {t, {4}, {2, 2, -1, 1}}},
             [](Builder& b, const Values& v) {
               return Values{b.add(v[0], v[1]), b.sub(v[0], v[1]), b.mul(v[0], v[1]), b.div(v[0], v[1]),
                             b.rem(v[0], v[1]), b.max(v[0], v[1]), b.min(v[1], v[0])};
             }),
         V{9, -5, 1, kNaN} + V{5, -9, 3, kNaN} + V{14, -14, -2, kNaN} + V{3.5, -3.5, -2, kNaN} + V{1, -1, 0, kNaN} +
             V{7, 2, 2, kNaN} + V{2, -7, -1, kNaN});
    same(run({{t, {2}, {2, 3}}, {t, {}, {2}}},
             [](Builder& b, const Values& v) {
               return Values{b.pow(v[0], v[1]), b.pow(v[1], v[0]), b.atan2(v[0], v[1]),
                             b.clamp(b.scalar(2.5, v[0].dtype()), v[0], v[0])};
             }),
         {4, 9, 4, 8, std::atan2(2, 2), std::atan2(3, 2), 2, 3}, tolerance);
  }
}

TEST_CASE("integers, bools, comparison, selection") {
  for (DType t : kInts) {
    same(run({{t, {3}, {7, 12, 100}}, {t, {3}, {2, 5, 3}}},
             [](Builder& b, const Values& v) {
               return Values{b.add(v[0], v[1]),
                             b.sub(v[0], v[1]),
                             b.div(v[0], v[1]),
                             b.rem(v[0], v[1]),
                             b.max(v[0], v[1]),
                             b.min(v[0], v[1]),
                             b.and_(v[0], v[1]),
                             b.or_(v[0], v[1]),
                             b.xor_(v[0], v[1]),
                             b.popcnt(v[0]),
                             b.shr_logical(v[0], v[1]),
                             b.shr_arithmetic(v[0], v[1]),
                             b.sign(v[0]),
                             b.abs(v[0]),
                             b.floor(v[0]),
                             b.pow(v[1], b.scalar(2, v[1].dtype())),
                             b.shl(b.not_(b.not_(v[1])), b.full_like(v[1], 1))};
             }),
         V{9, 17, 103} + V{5, 7, 97} + V{3, 2, 33} + V{1, 2, 1} + V{7, 12, 100} + V{2, 5, 3} + V{2, 4, 0} +
             V{7, 13, 103} + V{5, 9, 103} + V{3, 2, 3} + V{1, 0, 12} + V{1, 0, 12} + V{1, 1, 1} + V{7, 12, 100} +
             V{7, 12, 100} + V{4, 25, 9} + V{4, 10, 6});
  }
  const auto logic = [](Builder& b, const Values& v) {
    return Values{b.add(v[0], v[1]),  b.mul(v[0], v[1]), b.max(v[0], v[1]), b.min(v[0], v[1]),
                  b.xor_(v[0], v[1]), b.not_(v[0]),      b.lt(v[0], v[1])};
  };
  same(run({{DType::kBool, {4}, {1, 1, 0, 0}}, {DType::kBool, {4}, {1, 0, 1, 0}}}, logic),
       V{1, 1, 1, 0} + V{1, 0, 0, 0} + V{1, 1, 1, 0} + V{1, 0, 0, 0} + V{0, 1, 1, 0} + V{0, 0, 1, 1} + V{0, 0, 1, 0});
  const auto compared = [](Builder& b, const Values& v) {
    return Values{b.eq(v[0], v[1]),
                  b.ne(v[0], v[1]),
                  b.lt(v[0], v[1]),
                  b.le(v[0], v[1]),
                  b.gt(v[0], v[1]),
                  b.ge(v[0], v[1]),
                  b.select(b.lt(v[0], v[1]), v[0], v[1]),
                  b.clz(b.convert(v[1], DType::kS32))};
  };
  for (DType t : {DType::kS8, DType::kU64, DType::kBF16, DType::kF64}) {
    same(run({{t, {3}, {1, 2, 3}}, {t, {}, {2}}}, compared),
         V{0, 1, 0} + V{1, 0, 1} + V{1, 0, 0} + V{1, 1, 0} + V{0, 0, 1} + V{0, 1, 1} + V{1, 2, 2} + V{30});
  }
  same(run({{DType::kF32, {1}, {kNaN}}, {DType::kF32, {}, {2}}}, compared), {0, 1, 0, 0, 0, 0, 2, 30});
}

TEST_CASE("complex numbers") {
  for (DType t : {DType::kF32, DType::kF64}) {
    same(run({{t, {1}, {3}}, {t, {1}, {4}}},
             [](Builder& b, const Values& v) {
               const Value z = b.complex(v[0], v[1]);
               return Values{b.abs(z),
                             b.mul(z, z),
                             b.div(z, z),
                             b.real(z),
                             b.imag(z),
                             b.neg(z),
                             b.sqrt(z),
                             b.eq(z, z),
                             b.is_finite(z),
                             b.convert(z, DType::kC128),
                             b.add(z, b.convert(v[0], z.dtype()))};
             }),
         {5, -7, 24, 1, 0, 3, 4, -3, -4, 2, 1, 1, 1, 3, 4, 6, 4}, 1e-6);
  }
}

TEST_CASE("conversion") {
  const V x = {-1, -2.7, 2.7, 300, 0};
  const auto to = [&](DType t) {
    return run(DType::kF32, x, [t](Builder& b, Value v) { return Values{b.convert(v, t)}; });
  };
  same(to(DType::kBool), {1, 1, 1, 1, 0});
  same(to(DType::kU8), {255, 254, 2, 44, 0});
  same(to(DType::kS8), {-1, -2, 2, 44, 0});
  same(to(DType::kU16), {65535, 65534, 2, 300, 0});
  same(to(DType::kU32), {4294967295, 4294967294, 2, 300, 0});
  same(to(DType::kU64), {0x1p64, 0x1p64, 2, 300, 0});
  same(to(DType::kS64), {-1, -2, 2, 300, 0});
  same(to(DType::kF8E4M3FN), {-1, -2.75, 2.75, 288, 0});
  same(to(DType::kC64), {-1, -2.7f, 2.7f, 300, 0, 0, 0, 0, 0, 0});
  same(run(DType::kF64, {1e9, -kInf, kNaN}, [](Builder& b, Value v) { return Values{b.convert(v, DType::kF8E4M3FN)}; }),
       {448, -448, kNaN});
  same(run(DType::kF32, {1, -2},
           [](Builder& b, Value v) {
             const Value bytes = b.bitcast(v, DType::kU8);
             return Values{bytes, b.bitcast(bytes, DType::kF32), b.bitcast(v, DType::kS32)};
           }),
       {0, 0, 128, 63, 0, 0, 0, 192, 1, -2, 0x3F800000, -0x40000000});
}

}  // namespace tpu::hlo
