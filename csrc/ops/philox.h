// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) in integer
// operations, so that every plugin and every chip makes the same bits. Element i of an op takes the counter offset + i
// (in most masks, a quarter of the counters serves all: random.cc); an op moves its generator by as many counters as
// it has elements. A lowering that needs more than the four words of a counter asks for further `draw`s of it, which no
// other op sees.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// Four words of 32 random bits for each element.
struct Words {
  Value w[4];
  const Dims& dims() const { return w[0].dims(); }
};

inline Words philox(Builder& b, const Random& random, const Dims& dims, std::optional<Value> draw = {}) {
  const auto u32 = [&](int64_t v) { return b.scalar_int(v, DType::kU32); };
  const auto low = [&](Value v) { return b.convert(v, DType::kU32); };
  const auto high = [&](Value v) { return low(b.shr_logical(v, b.scalar_int(32, DType::kU64))); };
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  const Value index = b.reshape(b.iota(DType::kU64, {n}, 0), dims);
  const Value counter = b.add(index, random.offset);
  Value c0 = low(counter), c1 = high(counter), c2 = b.broadcast_to(draw ? *draw : u32(0), dims), c3 = b.zeros_like(c2);
  Value k0 = low(random.seed), k1 = high(random.seed);
  const auto wide = [&](Value v, int64_t factor) {
    return b.mul(b.convert(v, DType::kU64), b.scalar_int(factor, DType::kU64));
  };
  for (int round = 0; round < 10; ++round) {
    const Value p0 = wide(c0, 0xD2511F53), p1 = wide(c2, 0xCD9E8D57);
    c0 = b.xor_(b.xor_(high(p1), c1), k0);
    c2 = b.xor_(b.xor_(high(p0), c3), k1);
    c1 = low(p1);
    c3 = low(p0);
    k0 = b.add(k0, u32(0x9E3779B9));
    k1 = b.add(k1, u32(0xBB67AE85));
  }
  return {{c0, c1, c2, c3}};
}

// The upper `bits` bits of words as a floating number: exact, since 0 <= it < 2^bits. Takes two words for float64.
inline Value whole(Builder& b, const Words& words, int first, int bits, DType dtype) {
  const auto top = [&](Value w, int n) {  // fewer than 32 bits: signed integers convert faster
    return b.convert(b.convert(b.shr_logical(w, b.scalar_int(32 - n, DType::kU32)), DType::kS32), dtype);
  };
  const Value high = top(words.w[first], std::min(bits, 27));
  if (bits <= 27) return high;
  return b.add(b.mul(high, b.scalar(static_cast<double>(1 << (bits - 27)), dtype)), top(words.w[first + 1], bits - 27));
}

// Uniform in [0, 1): as many digits as `digits_of` has, so that rounding to it never gives 1. float32 or float64.
inline Value uniform(Builder& b, const Words& words, DType digits_of, int first = 0) {
  const DType dtype = digits_of == DType::kF64 ? DType::kF64 : DType::kF32;
  const int bits = digits_of == DType::kF64 ? 53 : digits_of == DType::kF16 ? 11 : digits_of == DType::kBF16 ? 8 : 24;
  return b.mul(whole(b, words, first, bits, dtype), b.scalar(1.0 / static_cast<double>(int64_t{1} << bits), dtype));
}

// Uniform in (0, 1], with a fine grid near 0: the argument of a logarithm. float32 or float64.
inline Value positive_uniform(Builder& b, const Words& words, DType dtype, int first = 0) {
  if (dtype == DType::kF64) return b.sub(b.scalar(1, dtype), uniform(b, words, dtype, first));
  const Value x = b.convert(words.w[first], dtype);
  return b.add(b.mul(x, b.scalar(0x1p-32, dtype)), b.scalar(0x1p-33, dtype));
}

// Exponential with rate 1, never 0. One word, two of float64.
inline Value exponential(Builder& b, const Words& words, DType dtype, int first = 0) {
  const Value least = b.scalar(dtype == DType::kF64 ? 0x1p-54 : 0x1p-25, dtype);
  return b.max(b.neg(b.log(positive_uniform(b, words, dtype, first))), least);
}

// A pair of independent standard normals (Box-Muller).
inline std::pair<Value, Value> normals(Builder& b, const Words& words, DType dtype) {
  const bool wide = dtype == DType::kF64;
  const Value radius = b.sqrt(b.mul(b.scalar(-2, dtype), b.log(positive_uniform(b, words, dtype))));
  const Value angle = b.mul(uniform(b, words, dtype, wide ? 2 : 1), b.scalar(6.283185307179586, dtype));
  return {b.mul(radius, b.cos(angle)), b.mul(radius, b.sin(angle))};
}

}  // namespace tpu::ops
