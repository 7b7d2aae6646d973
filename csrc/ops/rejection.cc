// Distributions that are drawn by trial: each element takes further words of its counter until one is accepted.
#include <functional>

#include "ops/families.h"
#include "ops/philox.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

// Repeats `trial`, which gets the number of this round, from 1, and the state (first: what is done), until all elements
// are done.
Values repeat(Builder& b, const Values& start, const std::function<Values(Value, const Values&)>& trial) {
  constexpr int64_t kMost = 1 << 16;  // rounds: a bound for what never ends
  Values state{b.scalar(1, DType::kU32)};
  state.insert(state.end(), start.begin(), start.end());
  const auto open = [&](const Values& s) -> Values {
    Dims all;
    for (int64_t d = 0; d < s[1].rank(); ++d) all.push_back(d);
    const Value any = b.reduce(hlo::Reduce::kOr, b.not_(s[1]), all);
    return {b.and_(any, b.lt(s[0], b.scalar_int(kMost, DType::kU32)))};
  };
  const auto round = [&](const Values& s) -> Values {
    const Values old(s.begin() + 1, s.end());
    const Values tried = trial(s[0], old);
    Values next{b.add(s[0], b.scalar(1, DType::kU32))};
    for (size_t i = 0; i < old.size(); ++i) next.push_back(b.select(old[0], old[i], tried[i]));
    return next;
  };
  Values end = b.while_(state, open, round);
  end.erase(end.begin());
  return end;
}

struct Formula {  // arithmetic with numbers
  Builder& b;
  DType dtype;
  Value num(double v) const { return b.scalar(v, dtype); }
  Value add(Value x, double v) const { return b.add(x, num(v)); }
  Value mul(Value x, double v) const { return b.mul(x, num(v)); }
  Value over(double v, Value x) const { return b.div(num(v), x); }
  // log(k!) - ((k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2)
  Value stirling_tail(Value k) const {
    const Value n = add(k, 1), square = b.mul(n, n);
    return b.div(b.sub(num(1.0 / 12), b.div(b.sub(num(1.0 / 360), over(1.0 / 1260, square)), square)), n);
  }
};

DType compute_of(Value x) { return x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32; }

// Small rates: how many uniforms until their product falls below exp(-rate). Large ones: Hoermann's transformed
// rejection (PTRS, 1993).
Value poisson(Builder& b, Value rate, const Random& random) {
  const Formula f{b, rate.dtype()};
  const Value zero = b.zeros_like(rate), small = b.lt(rate, f.num(10));
  const Value few = b.exp(b.neg(b.select(small, rate, zero)));
  const Value lambda = b.max(rate, f.num(10)), scale = f.add(f.mul(b.sqrt(lambda), 2.53), 0.931);
  const Value a = f.add(f.mul(scale, 0.02483), -0.059);
  const Value inverse_alpha = f.add(f.over(1.1328, f.add(scale, -3.4)), 1.1239);
  const Value accept = b.sub(f.num(0.9277), f.over(3.6224, f.add(scale, -2)));
  const Value usable = b.is_finite(rate);
  const auto trial = [&](Value round, const Values& s) -> Values {
    const Words words = philox(b, random, s[0].dims(), round);
    const Value u = positive_uniform(b, words, f.dtype), v = positive_uniform(b, words, f.dtype, 2);
    // Two factors a round.
    const Value once = b.mul(s[2], u), twice = b.mul(once, v);
    const Value past_once = b.le(once, few), past_twice = b.le(twice, few);
    const Value count = b.select(past_once, s[1], b.select(past_twice, f.add(s[1], 1), f.add(s[1], 2)));
    const Value centred = f.add(u, -0.5), us = b.max(b.sub(f.num(0.5), b.abs(centred)), f.num(1e-7));
    const Value slope = b.add(b.div(f.mul(a, 2), us), scale);
    const Value k = b.floor(f.add(b.add(b.mul(slope, centred), lambda), 0.43));
    const Value quick = b.and_(b.ge(us, f.num(0.07)), b.le(v, accept));
    const Value out = b.or_(b.lt(k, zero), b.and_(b.lt(us, f.num(0.013)), b.gt(v, us)));
    // log of the probability of k, without large terms that cancel
    const Value n = f.add(b.max(k, zero), 1), away = b.div(b.sub(n, lambda), lambda);
    const Value entropy = b.sub(b.sub(n, lambda), b.mul(b.sub(n, f.num(0.5)), b.log1p(away)));
    const Value log_p =
        b.sub(b.sub(f.add(entropy, -0.9189385332046727), f.mul(b.log(lambda), 0.5)), f.stirling_tail(b.max(k, zero)));
    const Value bound = b.log(b.div(b.mul(v, inverse_alpha), b.add(b.div(a, b.mul(us, us)), scale)));
    const Value exact = b.and_(b.not_(out), b.le(bound, log_p));
    return {b.select(small, past_twice, b.or_(quick, exact)), b.select(small, count, k), twice};
  };
  const Value never = b.not_(usable), one = b.full_like(rate, 1);
  const Value drawn = repeat(b, {never, b.select(usable, zero, rate), one}, trial)[1];
  return b.select(b.le(rate, zero), zero, drawn);
}

// Marsaglia and Tsang (2000).
Value standard_gamma(Builder& b, Value shape, const Random& random) {
  const Formula f{b, shape.dtype()};
  const Value zero = b.zeros_like(shape), one = b.full_like(shape, 1), boosted = b.lt(shape, one);
  const Value u0 = positive_uniform(b, philox(b, random, shape.dims()), f.dtype);
  const Value boost = b.select(boosted, b.exp(b.div(b.log(u0), shape)), one);
  const Value d = f.add(b.select(boosted, b.add(shape, one), shape), -1.0 / 3);
  const Value c = b.rsqrt(f.mul(d, 9));
  const auto trial = [&](Value round, const Values& s) -> Values {
    const Words words = philox(b, random, s[0].dims(), round);
    const Value x = normals(b, words, f.dtype).first;
    // A float64 normal takes all four words.
    const Value other = b.or_(round, b.scalar_int(int64_t{1} << 31, DType::kU32));
    const Value u = f.dtype == DType::kF64 ? positive_uniform(b, philox(b, random, s[0].dims(), other), f.dtype)
                                           : positive_uniform(b, words, f.dtype, 2);
    const Value root = b.add(b.mul(c, x), one), v = b.mul(root, b.mul(root, root));
    const Value inside = b.gt(v, zero), safe = b.select(inside, v, one);
    const Value bound = b.add(f.mul(b.mul(x, x), 0.5), b.mul(d, b.add(b.sub(one, safe), b.log(safe))));
    return {b.and_(inside, b.lt(b.log(u), bound)), b.mul(d, safe)};
  };
  const Value never = b.not_(b.is_finite(shape));
  const Value drawn = repeat(b, {never, b.select(never, shape, zero)}, trial)[1];
  return b.select(b.eq(shape, zero), zero, b.mul(drawn, boost));
}

// Few expected: sums of geometric numbers. Many: Hoermann's BTRS (1993).
Value binomial(Builder& b, Value count, Value prob, const Random& random) {
  const Formula f{b, prob.dtype()};
  const Value zero = b.zeros_like(prob), one = b.full_like(prob, 1), flipped = b.gt(prob, f.num(0.5));
  const Value n = b.floor(b.max(count, zero));
  const Value p = b.clamp(zero, b.select(flipped, b.sub(one, prob), prob), f.num(0.5)), q = b.sub(one, p);
  const Value few = b.lt(b.mul(n, p), f.num(10)), log_q = b.log1p(b.neg(p));
  const Value std = b.sqrt(b.max(b.mul(b.mul(n, p), q), f.num(1)));
  const Value scale = f.add(f.mul(std, 2.53), 1.15), centre = f.add(b.mul(n, p), 0.5);
  const Value a = b.add(f.add(f.mul(scale, 0.0248), -0.0873), f.mul(p, 0.01));
  const Value accept = b.sub(f.num(0.92), f.over(4.2, scale)), odds = b.div(p, q);
  const Value alpha = b.mul(f.add(f.over(5.1, scale), 2.83), std), mode = b.floor(b.mul(b.add(n, one), p));
  const auto trial = [&](Value round, const Values& s) -> Values {
    const Words words = philox(b, random, s[0].dims(), round);
    const Value u = positive_uniform(b, words, f.dtype), v = positive_uniform(b, words, f.dtype, 2);
    const Value sum = b.add(s[2], b.max(b.ceil(b.div(b.log(u), log_q)), one)), past = b.gt(sum, n);
    const Value centred = f.add(u, -0.5), us = b.max(b.sub(f.num(0.5), b.abs(centred)), f.num(1e-7));
    const Value k = b.floor(b.add(b.mul(b.add(b.div(f.mul(a, 2), us), scale), centred), centre));
    const Value quick = b.and_(b.ge(us, f.num(0.07)), b.le(v, accept));
    const Value inside = b.and_(b.ge(k, zero), b.le(k, n)), at = b.clamp(zero, k, n);
    const Value rest = b.sub(n, at), mode_rest = b.sub(n, mode);
    const auto up = [&](Value x) { return b.add(x, one); };
    const auto half = [&](Value x) { return f.add(x, 0.5); };
    Value log_p = b.mul(half(mode), b.log(b.div(up(mode), b.mul(odds, up(mode_rest)))));
    log_p = b.add(log_p, b.mul(up(n), b.log(b.div(up(mode_rest), up(rest)))));
    log_p = b.add(log_p, b.mul(half(at), b.log(b.div(b.mul(odds, up(rest)), up(at)))));
    log_p = b.add(log_p, b.add(f.stirling_tail(mode), f.stirling_tail(mode_rest)));
    log_p = b.sub(log_p, b.add(f.stirling_tail(at), f.stirling_tail(rest)));
    const Value bound = b.log(b.div(b.mul(v, alpha), b.add(b.div(a, b.mul(us, us)), scale)));
    const Value taken = b.and_(inside, b.or_(quick, b.le(bound, log_p)));
    return {b.select(few, past, taken), b.select(few, b.select(past, s[1], up(s[1])), at), sum};
  };
  const Value nan = b.is_nan(b.add(count, prob));
  const Value trivial = b.or_(b.or_(b.le(n, zero), b.le(p, zero)), nan);
  const Value drawn = repeat(b, {trivial, zero, zero}, trial)[1];
  return b.select(nan, b.add(count, prob), b.select(flipped, b.sub(n, drawn), drawn));
}

}  // namespace

void add_rejection(Table& ops) {
  ops.add("poisson", plain,
          [](Builder& b, Value rate, Random random) { return poisson(b, b.convert(rate, compute_of(rate)), random); })
      .refuses([](const Call& call) { return is_real(call, "poisson_tpu"); });
  ops.add("binomial", plain, [](Builder& b, const Call& call, Value count, Value prob, Random random) {
    const DType dtype = compute_of(count);
    const Dims& dims = call.results[0]->dims;
    return binomial(b, b.broadcast_to(b.convert(count, dtype), dims), b.broadcast_to(b.convert(prob, dtype), dims),
                    random);
  });
  ops.add("_standard_gamma", plain,
          [](Builder& b, Value shape, Random random) {
            const DType dtype = compute_of(shape);
            const double least = shape.dtype() == DType::kF64   ? 0x1p-1022
                                 : shape.dtype() == DType::kF16 ? 0x1p-14
                                                                : 0x1p-126;
            return b.max(standard_gamma(b, b.convert(shape, dtype), random), b.scalar(least, dtype));
          })
      .refuses([](const Call& call) { return is_real(call, "gamma_tpu"); });
  ops.add("_sample_dirichlet", plain,
          [](Builder& b, Value shape, Random random) {
            const DType dtype = compute_of(shape);
            const Value parts = b.max(standard_gamma(b, b.convert(shape, dtype), random), b.scalar(0x1p-126, dtype));
            const int64_t last = shape.rank() - 1;
            const Value total = b.expand_dims(b.reduce(hlo::Reduce::kAdd, parts, {last}), {last});
            return b.div(parts, b.broadcast_to(total, shape.dims()));
          })
      .results(like<0>)
      .refuses([](const Call& call) { return is_real(call, "dirichlet"); });
}

}  // namespace tpu::ops
