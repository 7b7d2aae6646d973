// What the bits of a float say that comparisons do not: the sign of zeros and of NaN.
#pragma once

#include "hlo/builder.h"

namespace tpu::ops {

// Float32 keeps the sign of every other float, and TPUs cannot look at the bits of float64.
inline hlo::Value sign_bit(hlo::Builder& b, hlo::Value x) {
  if (!is_float(x.dtype())) return b.lt(x, b.scalar(0, x.dtype()));
  const hlo::Value bits = b.bitcast(b.convert(x, DType::kF32), DType::kS32);
  return b.lt(bits, b.scalar(0, DType::kS32));
}

inline hlo::Value copysign(hlo::Builder& b, hlo::Value magnitude, hlo::Value sign) {
  magnitude = b.abs(magnitude);
  return b.select(sign_bit(b, sign), b.neg(magnitude), magnitude);
}

}  // namespace tpu::ops
