// Rounding that the compiler may not take away.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// To the precision of a narrower type, staying in the wider one.
inline Value round_to(Builder& b, Value x, DType narrow) {
  if (narrow != DType::kF16 && narrow != DType::kBF16) return x;
  const char* bits = narrow == DType::kF16 ? "exponent_bits = 5 : i32, mantissa_bits = 10 : i32"
                                           : "exponent_bits = 8 : i32, mantissa_bits = 7 : i32";
  return b.raw("stablehlo.reduce_precision", {x}, bits, {*x.type})[0];
}

}  // namespace tpu::ops
