// Element types of device arrays, shared by every layer. PJRT, StableHLO and PyTorch names are mapped from here.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpu {

enum class DType : uint8_t {
  kBool,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
};

constexpr bool is_float(DType t) { return (t >= DType::kF16 && t <= DType::kF64) || t >= DType::kF8E4M3FN; }
constexpr bool is_complex(DType t) { return t == DType::kC64 || t == DType::kC128; }
constexpr bool is_unsigned(DType t) { return t >= DType::kU8 && t <= DType::kU64; }
constexpr bool is_signed_int(DType t) { return t >= DType::kS8 && t <= DType::kS64; }
constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned(t); }
// Floating types narrower than 32 bits: PyTorch computes with them in float32 and rounds once per op.
constexpr bool is_reduced(DType t) { return is_float(t) && t != DType::kF32 && t != DType::kF64; }

// Bytes of one element in memory (bool takes one).
int64_t size_of(DType t);
// Name in StableHLO text: "f32", "i1", "ui8", "complex<f32>".
std::string_view mlir_name(DType t);
// Part type of a complex dtype: float32 of complex64.
constexpr DType real_of(DType t) { return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t; }
constexpr DType complex_of(DType t) { return t == DType::kF64 ? DType::kC128 : DType::kC64; }
constexpr DType opmath_of(DType t) { return is_reduced(t) ? DType::kF32 : t; }

}  // namespace tpu
