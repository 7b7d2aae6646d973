// Polynomials and Chebyshev series, of which approximations are made.
#pragma once

#include <cmath>
#include <numbers>
#include <span>

#include "ops/row.h"

namespace tpu::ops {

inline Value constant(Builder& b, Value like, double v) { return b.scalar(v, like.dtype()); }
inline Value scale(Builder& b, Value x, double v) { return b.mul(x, constant(b, x, v)); }
inline Value offset(Builder& b, Value x, double v) { return b.add(x, constant(b, x, v)); }

// Horner's rule; the coefficient of the highest power first.
inline Value polynomial(Builder& b, Value x, std::span<const double> coefficients) {
  Value sum = b.full_like(x, coefficients[0]);
  for (const double c : coefficients.subspan(1)) sum = offset(b, b.mul(sum, x), c);
  return sum;
}

// Clenshaw's recurrence; terms below the precision of the type are left out.
inline Value chebyshev(Builder& b, Value t, std::span<const double> coefficients) {
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

}  // namespace tpu::ops
