#include "base/dtype.h"

#include <doctest/doctest.h>

namespace tpu {

TEST_CASE("dtype: sizes and names follow the enum's order") {
  CHECK(size_of(DType::kBool) == 1);
  CHECK(mlir_name(DType::kBool) == "i1");
  CHECK(size_of(DType::kU32) == 4);
  CHECK(mlir_name(DType::kU32) == "ui32");
  CHECK(size_of(DType::kBF16) == 2);
  CHECK(mlir_name(DType::kBF16) == "bf16");
  CHECK(size_of(DType::kC128) == 16);
  CHECK(mlir_name(DType::kC128) == "complex<f64>");
  CHECK(size_of(DType::kF8E5M2FNUZ) == 1);
  CHECK(mlir_name(DType::kF8E5M2FNUZ) == "f8E5M2FNUZ");
}

TEST_CASE("dtype: every type is of one kind") {
  for (int i = 0; i <= static_cast<int>(DType::kF8E5M2FNUZ); ++i) {
    const auto t = static_cast<DType>(i);
    CAPTURE(mlir_name(t));
    CHECK((t == DType::kBool) + is_int(t) + is_float(t) + is_complex(t) == 1);
  }
}

TEST_CASE("dtype: parts and compute types") {
  CHECK(real_of(DType::kC64) == DType::kF32);
  CHECK(complex_of(DType::kF64) == DType::kC128);
  CHECK(opmath_of(DType::kBF16) == DType::kF32);
  CHECK(opmath_of(DType::kF64) == DType::kF64);
  CHECK(opmath_of(DType::kS32) == DType::kS32);
}

}  // namespace tpu
