#include "base/dtype.h"

#include <array>

namespace tpu {
namespace {

struct Info {
  int64_t size;
  std::string_view mlir;
};

constexpr std::array<Info, 19> kInfo = {{
    {1, "i1"},       {1, "i8"},         {2, "i16"},    {4, "i32"},          {8, "i64"},
    {1, "ui8"},      {2, "ui16"},       {4, "ui32"},   {8, "ui64"},         {2, "f16"},
    {2, "bf16"},     {4, "f32"},        {8, "f64"},    {8, "complex<f32>"}, {16, "complex<f64>"},
    {1, "f8E4M3FN"}, {1, "f8E4M3FNUZ"}, {1, "f8E5M2"}, {1, "f8E5M2FNUZ"},
}};

}  // namespace

int64_t size_of(DType t) { return kInfo[static_cast<size_t>(t)].size; }
std::string_view mlir_name(DType t) { return kInfo[static_cast<size_t>(t)].mlir; }

}  // namespace tpu
