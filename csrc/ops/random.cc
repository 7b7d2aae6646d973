#include "ops/families.h"
#include "ops/philox.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

DType compute_of(const Call& call) {
  const DType t = opmath_of(real_of(call.compute));
  return is_float(t) ? t : DType::kF32;
}

Words draw(Builder& b, const Call& call, const Random& random) { return philox(b, random, call.results[0]->dims); }

Value normal(Builder& b, const Call& call, Value mean, Value std, const Random& random) {
  const Type& result = *call.results[0];
  const DType dtype = compute_of(call);
  const auto [x, y] = normals(b, draw(b, call, random), dtype);
  if (!is_complex(result.dtype)) return b.add(b.mul(x, std), mean);
  const Value scale = b.mul(b.real(std), b.scalar(0.7071067811865476, dtype));
  return b.add(b.complex(b.mul(x, scale), b.mul(y, scale)), mean);
}

// Keeps random bits in a loop of their own. The CPU's compiler vectorizes 64-bit products alone, but not in one loop
// with what has no vector form of their width, as erf: the two take three times as long together as one after the
// other.
Value apart(Builder& b, Value v) { return b.for_cpu() ? b.optimization_barrier({v})[0] : v; }

// True with probability p. Where p is one for all and the dimensions before the last make whole quarters, a counter
// serves four elements that lie a quarter of them apart: its words' answers are the bits of a byte, which are taken out
// where they are read.
Value bernoulli(Builder& b, const Call& call, Value p, const Random& random) {
  const DType dtype = compute_of(call);
  const Dims& dims = call.results[0]->dims;
  int64_t lead = 1;  // elements of as few dimensions in front as do
  auto rest = dims.begin();
  while (rest != dims.end() && (rest == dims.begin() || lead % 4 != 0)) lead *= *rest++;
  if (!p.dims().empty() || dtype == DType::kF64 || rest == dims.end()) {
    return apart(b, b.lt(uniform(b, draw(b, call, random), dtype), b.convert(p, dtype)));
  }
  Dims quarter{lead / 4};
  quarter.insert(quarter.end(), rest, dims.end());
  const Words words = philox(b, random, quarter);
  // k / 2^24 < p of whole numbers: k < ceil(p * 2^24).
  const Value least = b.convert(b.ceil(b.mul(b.convert(p, dtype), b.scalar(1 << 24, dtype))), DType::kS32);
  const auto u8 = [&](int64_t v) { return b.scalar_int(v, DType::kU8); };
  Value bits;
  for (int i = 0; i < 4; ++i) {
    const Value k = b.convert(b.shr_logical(words.w[i], b.scalar_int(8, DType::kU32)), DType::kS32);
    const Value bit = b.select(b.lt(k, least), u8(1 << i), u8(0));
    bits = i == 0 ? bit : b.or_(bits, bit);
  }
  Dims all{4}, mapping;
  for (size_t d = 0; d < quarter.size(); ++d) {
    all.push_back(quarter[d]);
    mapping.push_back(static_cast<int64_t>(d) + 1);
  }
  const Value own = b.shl(u8(1), b.iota(DType::kU8, all, 0));
  const Value mask = b.ne(b.and_(b.broadcast_in_dim(apart(b, bits), all, mapping), own), u8(0));
  return b.reshape(mask, dims);
}

// Uniform in [0, range), range in the unsigned type of the words, where 0 stands for all values of that type: the upper
// half of a product, whose bias is at most range / 2^bits.
Value below(Builder& b, const Words& words, Value range) {
  const auto u64 = [&](Value v) { return b.convert(v, DType::kU64); };
  const auto high = [&](Value v) { return b.shr_logical(v, b.scalar_int(32, DType::kU64)); };
  const auto low = [&](Value v) { return b.and_(v, b.scalar_int(0xffffffff, DType::kU64)); };
  const Value x = u64(words.w[0]);
  if (range.dtype() != DType::kU64) {
    const int64_t all = int64_t{1} << (8 * size_of(range.dtype()));
    const Value wide = b.select(b.eq(range, b.scalar(0, range.dtype())), b.scalar_int(all, DType::kU64), u64(range));
    return b.convert(high(b.mul(x, wide)), range.dtype());
  }
  const Value y = u64(words.w[1]), r1 = high(range), r0 = low(range);
  const Value middle = b.mul(x, r0), rest = b.add(b.mul(y, r1), high(b.mul(y, r0)));
  const Value carry = high(b.add(low(middle), low(rest)));
  const Value product = b.add(b.add(b.mul(x, r1), b.add(high(middle), high(rest))), carry);
  const Value all = b.or_(b.shl(x, b.scalar_int(32, DType::kU64)), y);
  return b.select(b.eq(range, b.scalar(0, DType::kU64)), all, product);
}

// Integers from `from` to before `to` (null: to the greatest), in any dtype.
Value integers(Builder& b, const Call& call, Value from, std::optional<Scalar> to, const Random& random) {
  const DType result = call.results[0]->dtype, compute = call.compute;
  const Words words = draw(b, call, random);
  // Floats hold whole numbers; bool and int computed in int64 here.
  const DType work = is_int(compute) ? compute : DType::kS64;
  constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  const int width = size_of(work) == 8 ? 3 : size_of(work) == 4 ? 2 : size_of(work) == 2 ? 1 : 0;
  const DType bits = kUnsigned[width];
  const Value start = b.convert(b.convert(from, work), bits);
  Value end = to ? b.convert(b.convert(*to, work), bits) : Value();
  if (!to) {
    const auto most = [&] {  // one more than the greatest value; 0 where that does not fit
      switch (result) {
        case DType::kBool: return b.scalar(2, bits);
        case DType::kF16: return b.scalar((1 << 11) + 1, bits);
        case DType::kBF16: return b.scalar((1 << 8) + 1, bits);
        case DType::kF32: return b.scalar((1 << 24) + 1, bits);
        case DType::kF64: return b.scalar_int((int64_t{1} << 53) + 1, bits);
        default: return b.add(b.convert(b.highest(result), bits), b.scalar(1, bits));
      }
    };
    end = most();
  }
  const Value number = b.add(below(b, words, b.sub(end, start)), start);
  return is_int(work) && work != bits ? b.convert(number, work) : number;
}

// PyTorch draws in the dtype of the mean or deviation that is a tensor.
Status refuse_normal(const Call& call) {
  const DType dtype = call.operands[0]->dtype;
  return is_float(dtype) || is_complex(dtype) ? Status() : not_implemented("normal_kernel_tpu", dtype);
}

void add_distributions(Table& ops) {
  ops.add("uniform", pointwise, [](Builder& b, const Call& call, Value, Factor from, Factor to, Random random) {
    const DType dtype = real_of(call.results[0]->dtype);
    const Words words = draw(b, call, random);
    const auto between = [&](Value x) {
      if (from.is(0) && to.is(1)) return x;
      const Value low = b.convert(b.real(from), x.dtype()), high = b.convert(b.real(to), x.dtype());
      return b.add(b.mul(x, b.sub(high, low)), low);
    };
    const Value x = between(uniform(b, words, dtype));
    return is_complex(call.results[0]->dtype) ? b.complex(x, between(uniform(b, words, dtype, 2))) : x;
  });
  ops.add("normal_functional", pointwise,
          [](Builder& b, const Call& call, Value, Scalar mean, Scalar std, Random random) {
            if (!is_complex(call.results[0]->dtype)) return normal(b, call, mean, std, random);
            const Value both = b.real(mean);  // of the real and of the imaginary part
            return normal(b, call, b.complex(both, both), std, random);
          });
  ops.add("normal.Tensor_float", pointwise,
          [](Builder& b, const Call& call, Value mean, Scalar std, Random random) {
            return normal(b, call, mean, std, random);
          })
      .refuses(refuse_normal);
  ops.add("normal.float_Tensor", pointwise,
          [](Builder& b, const Call& call, Scalar mean, Value std, Random random) {
            return normal(b, call, mean, std, random);
          })
      .refuses(refuse_normal);
  ops.add("normal.Tensor_Tensor", pointwise, [](Builder& b, const Call& call, Value mean, Value std, Random random) {
    return normal(b, call, mean, std, random);
  });
  ops.add("log_normal", pointwise, [](Builder& b, const Call& call, Value, Scalar mean, Scalar std, Random random) {
    return b.exp(normal(b, call, mean, std, random));
  });
  ops.add("exponential", pointwise, [](Builder& b, const Call& call, Value, Factor rate, Random random) {
    const Value x = exponential(b, draw(b, call, random), compute_of(call));
    return rate.is(1) ? x : b.div(x, rate);
  });
  ops.add("geometric", pointwise, [](Builder& b, const Call& call, Value, Scalar p, Random random) {
    const DType dtype = compute_of(call);
    const Value x = exponential(b, draw(b, call, random), dtype);
    return b.max(b.ceil(b.div(x, b.neg(b.log1p(b.neg(p))))), b.scalar(1, dtype));
  });
  ops.add("cauchy", pointwise, [](Builder& b, const Call& call, Value, Scalar median, Scalar sigma, Random random) {
    // The half step keeps the angle inside the open interval.
    const DType dtype = compute_of(call);
    const bool wide = dtype == DType::kF64;
    const int bits = wide ? 52 : 23;
    const Value k = b.add(whole(b, draw(b, call, random), 0, bits, dtype), b.scalar(0.5, dtype));
    const double step = 1 / static_cast<double>(int64_t{1} << bits);
    const Value angle =
        b.mul(b.sub(b.mul(k, b.scalar(step, dtype)), b.scalar(0.5, dtype)), b.scalar(3.141592653589793, dtype));
    return b.add(b.mul(b.tan(angle), sigma), median);
  });
  ops.add("random", pointwise, [](Builder& b, const Call& call, Value, Random random) {
    return integers(b, call, b.scalar(0, call.compute), std::nullopt, random);
  });
  ops.add("random.to", pointwise, [](Builder& b, const Call& call, Value, Scalar to, Random random) {
    return integers(b, call, b.scalar(0, call.compute), to, random);
  });
  ops.add("random.from", pointwise,
          [](Builder& b, const Call& call, Value, Scalar from, optional<Scalar> to, Random random) {
            return integers(b, call, from, to, random);
          });
}

void add_masks(Table& ops) {
  ops.add("bernoulli", pointwise,
          [](Builder& b, const Call& call, Value p, Random random) { return bernoulli(b, call, p, random); })
      .refuses([](const Call& call) { return is_real(call, "bernoulli_tensor_tpu_p_"); });
  ops.add("bernoulli.p", pointwise,
          [](Builder& b, const Call& call, Value, Scalar p, Random random) { return bernoulli(b, call, p, random); });
  ops.add("bernoulli.Tensor", pointwise,
          [](Builder& b, const Call& call, Value, Value p, Random random) { return bernoulli(b, call, p, random); })
      .refuses([](const Call& call) { return is_real(call, "bernoulli_tensor_tpu_p_"); });
  ops.add("native_dropout", pointwise,
          [](Builder& b, const Call& call, Value x, Scalar p, optional<bool> train, Drawn random) {
            if (train && !*train) return Values{x, b.full(1, DType::kBool, x.dims())};
            const Value keep = b.sub(b.scalar(1, call.compute), p);
            const Value mask = bernoulli(b, call, keep, random);
            const Value zero = b.scalar(0, call.compute);
            const Value scale = b.select(b.eq(keep, zero), zero, b.div(b.scalar(1, call.compute), keep));
            return Values{b.mul(x, b.select(mask, scale, zero)), mask};
          });
  ops.add("native_dropout_backward", pointwise,
          [](Builder& b, Value grad, Value mask, Scalar scale) { return b.mul(b.mul(grad, mask), scale); });
  ops.add("_fused_dropout", pointwise, [](Builder& b, const Call& call, Value x, Scalar keep, Random random) {
    const Value mask = bernoulli(b, call, keep, random);
    return Values{b.div(b.mul(x, b.convert(mask, call.compute)), keep), mask};
  });
  ops.add("_masked_scale", pointwise,
          [](Builder& b, Value x, Value mask, Scalar scale) { return b.mul(b.mul(x, mask), scale); });
  ops.add(
      "rrelu_with_noise_functional", pointwise,
      [](Builder& b, const Call& call, Value x, Value noise, Scalar lower, Scalar upper, bool training, Random random) {
        const Value zero = b.scalar(0, call.compute), one = b.scalar(1, call.compute);
        if (!training) {
          const Value slope = b.div(b.add(lower, upper), b.scalar(2, call.compute));
          return Values{b.select(b.le(x, zero), b.mul(x, slope), x), noise};
        }
        const Value u = uniform(b, draw(b, call, random), call.compute);
        const Value slope = b.select(b.le(x, zero), b.add(b.mul(u, b.sub(upper, lower)), lower), one);
        return Values{b.mul(x, slope), slope};
      });
}

// --- sampling of indices --------------------------------------------------------------------------------------------

Value last_dim(Builder& b, const Type& type, DType dtype) { return b.iota(dtype, type.dims, type.rank() - 1); }

// The k elements with the largest keys of the last dimension: weights over exponentials are the order of a draw without
// replacement.
Value draw_distinct(Builder& b, Value weights, int64_t k, const Random& random) {
  const Value e = exponential(b, philox(b, random, weights.dims()), weights.dtype());
  const int64_t last = weights.rank() - 1;
  const auto larger_first = [&](const Values& v) -> Values { return {b.gt(v[0], v[1])}; };
  const Values sorted = b.sort({b.div(weights, e), last_dim(b, *weights.type, DType::kS32)}, last, true, larger_first);
  return b.slice_dim(sorted[1], last, 0, k);
}

// Inverts the distribution function. A category without weight has the function of the one before it: never drawn.
Value draw_with_replacement(Builder& b, Value weights, int64_t k, const Random& random) {
  const DType dtype = weights.dtype();
  const int64_t last = weights.rank() - 1, n = weights.dim(-1);
  const Value zero = b.scalar(0, dtype), present = b.gt(weights, zero);
  const Value sums = b.cumulative(Reduce::kAdd, weights, last);
  const Value function = b.cumulative(Reduce::kMax, b.select(present, sums, zero), last);
  const Value total = b.slice_dim(function, last, n - 1, n);
  const Value last_present = b.expand_dims(
      b.reduce(Reduce::kMax, b.select(present, last_dim(b, *weights.type, DType::kS32), b.scalar(0, DType::kS32)),
               {last}),
      {last});
  Dims dims = weights.dims();
  dims[static_cast<size_t>(last)] = k;
  const Value x = b.mul(uniform(b, philox(b, random, dims), dtype), b.broadcast_to(total, dims));
  Value found;
  constexpr int64_t kCompareAll = int64_t{1} << 22;
  if (k * n <= kCompareAll || k <= 16) {
    Dims all = dims;
    all.push_back(n);
    Dims samples, categories;
    for (int64_t d = 0; d <= last; ++d) samples.push_back(d);
    categories = samples;
    categories.back() = last + 1;
    const Value below = b.le(b.broadcast_in_dim(function, all, categories), b.broadcast_in_dim(x, all, samples));
    found = b.reduce(Reduce::kAdd, b.convert(below, DType::kS32), {last + 1});
  } else {  // bisection
    const int64_t rows = weights.numel() / n;
    const Value flat = b.reshape(function, {rows * n}), y = b.reshape(x, {rows, k});
    const Value base = b.mul(b.iota(DType::kS32, {rows, k}, 0), b.scalar_int(n, DType::kS32));
    const Value least = b.zeros({DType::kS32, {rows, k}});
    const auto open = [&](const Values& v) -> Values {
      const Value any = b.reduce(Reduce::kOr, b.lt(v[0], v[1]), {0, 1});
      return {any};
    };
    const auto halve = [&](const Values& v) -> Values {
      const Value low = v[0], high = v[1], one = b.scalar(1, DType::kS32);
      const Value middle = b.shr_logical(b.add(low, high), one);
      const Value at = b.min(b.add(base, middle), b.scalar_int(rows * n - 1, DType::kS32));
      const Value seen = b.gather(flat, b.reshape(at, {rows, k, 1}),
                                  {.collapsed = {0}, .start_index_map = {0}, .index_vector_dim = 2}, {1});
      const Value more = b.lt(low, high), right = b.le(seen, y);
      return {b.select(b.and_(more, right), b.add(middle, one), low),
              b.select(b.and_(more, b.not_(right)), middle, high)};
    };
    const Value low = b.while_({least, b.full_like(least, static_cast<double>(n))}, open, halve)[0];
    found = b.reshape(low, dims);
  }
  return b.min(found, b.broadcast_to(last_present, dims));
}

void add_sampling(Table& ops) {
  ops.add("randperm.generator_out", plain, [](Builder& b, const Call& call, int64_t, Random random, Value) {
    const Type& result = *call.results[0];
    const Words words = philox(b, random, result.dims);
    const auto body = [&](const Values& v) -> Values {  // 64-bit keys
      return {b.or_(b.lt(v[0], v[1]), b.and_(b.eq(v[0], v[1]), b.lt(v[2], v[3])))};
    };
    const DType index = result.numel() > (int64_t{1} << 31) ? DType::kS64 : DType::kS32;
    return b.sort({words.w[0], words.w[1], b.iota(index, result.dims, 0)}, 0, false, body)[2];
  });
  ops.add("multinomial", plain, [](Builder& b, Value weights, int64_t k, bool replacement, Random random) {
    const Value w = b.convert(weights, opmath_of(weights.dtype()));
    return replacement ? draw_with_replacement(b, w, k, random) : draw_distinct(b, w, k, random);
  });
}

}  // namespace

void add_random(Table& ops) {
  add_distributions(ops);
  add_masks(ops);
  add_sampling(ops);
}

}  // namespace tpu::ops
