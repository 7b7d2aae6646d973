// Everything that is not elementwise.
#include "hlo/execute_test.h"

namespace tpu::hlo {
namespace {

using namespace execute;  // NOLINT

constexpr DType kSome[] = {DType::kBool, DType::kU8,  DType::kS64, DType::kF16,
                           DType::kBF16, DType::kF32, DType::kC64, DType::kF8E5M2};
constexpr DType kNumbers[] = {DType::kS8, DType::kU32, DType::kS64, DType::kBF16, DType::kF32, DType::kF64};

Values as_s32(Builder& b, const Values& v) {
  Values r;
  for (const Value& x : v) r.push_back(b.convert(is_complex(x.dtype()) ? b.real(x) : x, DType::kS32));
  return r;
}

}  // namespace

TEST_CASE("moving elements") {
  for (DType t : kSome) {
    const V x = {1, 0, 1, 1, 0, 0};
    same(run({{t, {2, 3}, x}},
             [&](Builder& b, const Values& v) {
               const Value zero = b.scalar(0, t), none = b.scalar(0, DType::kS32), one = b.scalar(1, DType::kS32);
               return as_s32(b, {b.reshape(v[0], {3, 2}), b.transpose(v[0], {1, 0}), b.reverse(v[0], {1}),
                                 b.slice(v[0], {1, 0}, {2, 3}, {1, 2}), b.dynamic_slice(v[0], {one, one}, {1, 2}),
                                 b.dynamic_update_slice(v[0], b.zeros({t, {1, 1}}), {one, none}),
                                 b.pad(v[0], zero, {1, -1}, {0, 0}, {0, 1}), b.concat({v[0], v[0]}, 1),
                                 b.broadcast_in_dim(b.slice_dim(v[0], 0, 0, 1), {3, 2}, {1, 0}),
                                 b.squeeze(b.expand_dims(v[0], {0, 3}), {0}), b.iota(t, {3, 2}, 1)});
             }),
         V{1, 0, 1, 1, 0, 0} + V{1, 1, 0, 0, 1, 0} + V{1, 0, 1, 0, 0, 1} + V{1, 0} + V{0, 0} + V{1, 0, 1, 0, 0, 0} +
             V{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0} + V{1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0} + V{1, 1, 0, 0, 1, 1} + x +
             V{0, 1, 0, 1, 0, 1});
  }
}

TEST_CASE("a small part of a large value is written as any part is, for whatever compiler") {
  for (DType t : {DType::kBool, DType::kU8, DType::kF32, DType::kC64}) {
    for (const V& start : {V{3, 7}, V{-5, 2000}, V{127, 0}}) {
      const auto programs = [&](bool for_cpu) {
        return run({{t, {128, 1024}, V(128 * 1024, 1)}, {DType::kS32, {2}, start}}, [&](Builder& b, const Values& v) {
          b.set_for_cpu(for_cpu);
          const auto at = [&](int64_t i) { return b.reshape(b.slice_dim(v[1], 0, i, i + 1), {}); };
          const Value part = b.convert(b.iota(DType::kS32, {3, 2}, 0), t);
          const Builder::Body add = [&](const Values& x) { return Values{b.add(x[0], x[1])}; };
          const ScatterDims row{
              .update_window = {1}, .inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1};
          return Values{b.overwrite(v[0], part, {at(0), at(1)}),
                        b.scatter(v[0], b.slice_dim(v[1], 0, 0, 1), b.full(1, t, {1, 1024}), row, add)};
        });
      };
      same(programs(true), programs(false));
    }
  }
}

TEST_CASE("numbers and a mask beside a function") {
  const V x = range(40), mask = {1, 0, 1, 1};
  V want;
  for (double v : x) {
    const double e = std::exp(v / 40);
    want.push_back(mask[static_cast<size_t>(v) % 4] != 0 ? e * 0.5 : 0);
  }
  for (bool for_cpu : {false, true}) {
    same(run({{DType::kF64, {10, 4}, x}, {DType::kBool, {4}, mask}},
             [&](Builder& b, const Values& v) {
               b.set_for_cpu(for_cpu);
               const Value sum = b.add(b.mul(v[0], b.scalar(2, DType::kF64)), b.neg(v[0]));
               const Value e = b.exp(b.div(sum, b.scalar(40, DType::kF64)));
               const Value half = b.mul(e, b.scalar(0.5, DType::kF64));
               const Value kept = b.select(b.broadcast_to(v[1], {10, 4}), half, b.scalar(0, DType::kF64));
               return Values{b.settle(kept)};
             }),
         want, 1e-14);
  }
}

TEST_CASE("reductions") {
  for (DType t : kNumbers) {
    same(run({{t, {2, 3}, {1, 2, 3, 4, 5, 6}}},
             [](Builder& b, const Values& v) {
               return Values{b.reduce(Reduce::kAdd, v[0], {1}), b.reduce(Reduce::kMul, v[0], {0}),
                             b.reduce(Reduce::kMax, v[0], {0, 1}), b.reduce(Reduce::kMin, v[0], {1})};
             }),
         V{6, 15} + V{4, 10, 18} + V{6} + V{1, 4});
  }
  same(run(DType::kF32, {1, kNaN, 3},
           [](Builder& b, Value v) {
             const Value none = b.slice_dim(v, 0, 0, 0);
             return Values{b.reduce(Reduce::kMax, v, {0}), b.reduce(Reduce::kMin, v, {0}),
                           b.reduce(Reduce::kMax, none, {0}), b.reduce(Reduce::kMul, none, {0})};
           }),
       {kNaN, kNaN, -kInf, 1});
  same(run(DType::kBool, {1, 0, 1},
           [](Builder& b, Value v) {
             return Values{b.reduce(Reduce::kAdd, v, {0}), b.reduce(Reduce::kMul, v, {0}),
                           b.reduce(Reduce::kMax, v, {0}), b.reduce(Reduce::kMin, v, {0})};
           }),
       {1, 0, 1, 0});
  same(run(DType::kS32, {12, 10},
           [](Builder& b, Value v) { return Values{b.reduce(Reduce::kAnd, v, {0}), b.reduce(Reduce::kOr, v, {0})}; }),
       {8, 14});
}

TEST_CASE("a reduction of pairs: the greatest and where it is") {
  same(run({{DType::kF32, {2, 3}, {1, 5, 2, 7, 0, 7}}},
           [](Builder& b, const Values& v) {
             const Value at = b.iota(DType::kS32, {2, 3}, 1);
             return b.reduce({v[0], at}, {b.lowest(DType::kF32), b.scalar(0, DType::kS32)}, {1}, [&](const Values& p) {
               const Value greater = b.gt(p[2], p[0]);
               return Values{b.select(greater, p[2], p[0]), b.select(greater, p[3], p[1])};
             });
           }),
       {5, 7, 1, 0});
}

TEST_CASE("windows") {
  const Window by_two{.size = {2}, .stride = {2}};
  same(run(DType::kF32, {1, 4, 3, 2, 5},
           [&](Builder& b, Value v) {
             const Window spread{.size = {2}, .rhs_dilation = {2}, .low = {1}, .high = {1}};
             return Values{b.reduce_window(Reduce::kMax, v, by_two), b.reduce_window(Reduce::kAdd, v, spread),
                           b.reduce_window(Reduce::kAdd, v, {.size = {2}, .lhs_dilation = {2}}),
                           b.select_and_scatter(v, b.array(std::vector<int64_t>{10, 20}, DType::kF32),
                                                b.scalar(0, DType::kF32), by_two, Compare::kGe)};
           }),
       V{4, 3} + V{4, 4, 6, 8, 2} + V{1, 4, 4, 3, 3, 2, 2, 5} + V{0, 10, 20, 0, 0});
}

TEST_CASE("scans, shorter and longer than a block, along each dimension") {
  for (DType t : {DType::kS32, DType::kU64, DType::kF32, DType::kF64}) {
    for (int64_t n : {0, 1, 7, 16, 17, 300, 5000}) {
      V x, sums, tops, doubled;
      for (int64_t i = 0; i < n; ++i) {
        x.push_back(static_cast<double>(i * 7 % 10));
        sums.push_back((i ? sums.back() : 0) + x.back());
        tops.push_back(std::max(i ? tops.back() : 0, x.back()));
        doubled.insert(doubled.end(), 2, sums.back());
      }
      same(run(t, x,
               [&](Builder& b, Value v) {
                 const Value twice = b.broadcast_in_dim(v, {n, 2}, {0});
                 return Values{b.cumulative(Reduce::kAdd, v, 0), b.cumulative(Reduce::kMax, v, 0),
                               b.cumulative(Reduce::kAdd, twice, 0)};
               }),
           sums + tops + doubled);
    }
  }
  V ones(40, 1), last = ones;
  last[20] = 0;
  V until = last;
  std::fill(until.begin() + 20, until.end(), 0);
  same(run(DType::kBool, last, [](Builder& b, Value v) { return Values{b.cumulative(Reduce::kMul, v, 0)}; }), until);
}

TEST_CASE("sort") {
  same(run(DType::kF32, {3, 1, 2, 1},
           [](Builder& b, Value v) {
             return b.sort({v, b.iota(DType::kS64, {4}, 0)}, 0, true,
                           [&](const Values& p) { return Values{b.lt(p[0], p[1])}; });
           }),
       {1, 1, 2, 3, 1, 3, 2, 0});
}

TEST_CASE("gather and scatter") {
  const GatherDims rows{.offset = {1}, .collapsed = {0}, .start_index_map = {0}, .index_vector_dim = 1};
  const GatherDims along{.collapsed = {1},
                         .operand_batching = {0},
                         .indices_batching = {0},
                         .start_index_map = {1},
                         .index_vector_dim = 2};
  const ScatterDims to_rows{
      .update_window = {1}, .inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1};
  for (DType index : {DType::kS32, DType::kS64}) {
    same(run({{DType::kF32, {3, 2}, range(6)}, {index, {2, 1}, {2, 0}}, {index, {3, 1, 1}, {1, 0, 1}}},
             [&](Builder& b, const Values& v) {
               return Values{b.gather(v[0], v[1], rows, {1, 2}), b.gather(v[0], v[2], along, {1, 1})};
             }),
         V{4, 5, 0, 1} + V{1, 2, 5});
    same(run({{DType::kF32, {3, 2}, range(6)}, {index, {3, 1}, {2, 2, 9}}, {DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}}},
             [&](Builder& b, const Values& v) {
               const auto plus = [&](const Values& p) { return Values{b.add(p[0], p[1])}; };
               const auto set = [](const Values& p) { return Values{p[1]}; };
               const Value one = b.slice_dim(v[1], 0, 0, 1), row = b.slice_dim(v[2], 0, 0, 1);
               return Values{b.scatter(v[0], v[1], v[2], to_rows, plus),
                             b.scatter(v[0], one, row, to_rows, set, true, true)};
             }),
         V{0, 1, 2, 3, 8, 11} + V{0, 1, 2, 3, 1, 2});
  }
}

TEST_CASE("contractions") {
  for (DType t : kNumbers) {
    same(run({{t, {1, 2, 2}, {1, 2, 3, 4}}, {t, {1, 2, 1}, {5, 6}}},
             [&](Builder& b, const Values& v) {
               b.set_precision(Precision::kDefault);
               const Value whole = b.dot_general(v[0], v[0], {}, {}, {0, 1, 2}, {0, 1, 2}, t);
               b.set_precision(Precision::kHighest);
               return Values{b.matmul(v[0], v[1], t), whole};
             }),
         {17, 39, 30});
  }
  same(run({{DType::kBF16, {1, 1}, {3}}},
           [](Builder& b, const Values& v) { return Values{b.matmul(v[0], v[0], DType::kF32)}; }),
       {9});
  const ConvDims ncl{0, 1, 1, 0, 0, 1, {2}, {2}, {2}}, nlc{0, 2, 1, 2, 0, 2, {1}, {0}, {1}};
  same(run({{DType::kF32, {1, 2, 4}, range(8)}, {DType::kF32, {2, 1, 2}, {1, 1, 1, -1}}},
           [&](Builder& b, const Values& v) {
             const Window padded{.stride = {2}, .low = {1}, .high = {1}};
             const Value x = b.transpose(v[0], {0, 2, 1}), k = b.reshape(v[1], {1, 2, 2});
             return Values{b.convolution(v[0], v[1], padded, ncl, 2, 1, DType::kF32),
                           b.convolution(x, k, {.lhs_dilation = {2}}, nlc, 1, 1, DType::kF32)};
           }),
       V{0, 3, 3, -4, -1, 7} + V{4, -4, 0, 0, 6, -4, 0, 0, 8, -4, 0, 0, 10, -4});
}

TEST_CASE("dense algebra") {
  for (DType t : {DType::kF32, DType::kF64}) {
    same(run({{t, {2, 2}, {4, 2, 2, 5}}, {t, {2, 1}, {2, 5}}},
             [](Builder& b, const Values& v) {
               const Value l = b.cholesky(v[0], true);
               return Values{b.slice_dim(l, 1, 0, 1), b.triangular_solve(l, v[1], true, true, false, 'N'),
                             b.triangular_solve(l, v[1], true, true, false, 'T')};
             }),
         {2, 1, 1, 2, -0.25, 2.5}, 1e-6);
    same(run(t, {1, 2, 3, 4},
             [](Builder& b, Value v) {
               const Value f = b.fft(v, Fft::kRfft, {4});
               const Value z = b.fft(b.complex(v, b.zeros_like(v)), Fft::kFft, {4});
               return Values{f, b.fft(f, Fft::kIrfft, {4}), b.real(b.fft(z, Fft::kIfft, {4}))};
             }),
         V{10, -2, -2} + V{0, 2, 0} + V{1, 2, 3, 4} + V{1, 2, 3, 4}, 1e-6);
  }
}

TEST_CASE("control flow and calls") {
  same(run(DType::kF32, {1, 2},
           [](Builder& b, Value v) {
             const Value scale = b.exp(b.zeros_like(v));  // captured by the loop
             const auto more = [&](const Values& s) { return Values{b.lt(s[0], b.scalar(3, DType::kS32))}; };
             const auto step = [&](const Values& s) {
               return Values{b.add(s[0], b.scalar(1, DType::kS32)), b.add(s[1], b.add(s[1], b.sub(scale, scale)))};
             };
             return b.while_({b.scalar(0, DType::kS32), v}, more, step);
           }),
       {3, 8, 16});
  for (double p : {0, 1}) {
    same(run({{DType::kBool, {}, {p}}, {DType::kF32, {}, {5}}},
             [](Builder& b, const Values& v) {
               const auto negative = [&] { return Values{b.neg(v[1])}; };
               return b.if_(v[0], negative, [&] { return Values{b.add(v[1], b.scalar(1, DType::kF32))}; });
             }),
         {p == 0 ? 6.0 : -5.0});
  }
  same(run({{DType::kF32, {2, 2}, {0, 3, 4, 0}}},
           [](Builder& b, const Values& v) {
             const Values kept = b.optimization_barrier({v[0], b.neg(v[0])});
             const std::vector<Type> best = {{DType::kF32, {2, 1}}, {DType::kS32, {2, 1}}};
             const std::vector<Type> packed = {{DType::kF32, {2, 2}}, {DType::kF32, {2}}};
             const Values top = b.raw("chlo.top_k", {kept[0]}, "k = 1 : i64", best);
             const Values qr = b.custom_call("Qr", {kept[1]}, packed);
             return Values{top[0], top[1], b.abs(b.slice(qr[0], {0, 0}, {1, 1}))};
           }),
       {3, 4, 1, 0, 4}, 1e-6);
  const Type one{DType::kF32, {}};
  same(run(DType::kF32, {1, 2, 3},
           [&](Builder& b, Value v) {
             const Builder::Region sum{{one, one}, [&](const Values& p) { return Values{b.add(p[0], p[1])}; }};
             const Values operands = {v, b.scalar(0, DType::kF32)};
             return b.raw("stablehlo.reduce", operands, "dimensions = array<i64: 0>", {one}, {sum});
           }),
       {6});
}

}  // namespace tpu::hlo
