#include "aten/dtype.h"

namespace tpu::aten {
namespace {

constexpr std::pair<at::ScalarType, DType> kPairs[] = {
    {at::kBool, DType::kBool},
    {at::kChar, DType::kS8},
    {at::kShort, DType::kS16},
    {at::kInt, DType::kS32},
    {at::kLong, DType::kS64},
    {at::kByte, DType::kU8},
    {at::kUInt16, DType::kU16},
    {at::kUInt32, DType::kU32},
    {at::kUInt64, DType::kU64},
    {at::kHalf, DType::kF16},
    {at::kBFloat16, DType::kBF16},
    {at::kFloat, DType::kF32},
    {at::kDouble, DType::kF64},
    {at::kComplexFloat, DType::kC64},
    {at::kComplexDouble, DType::kC128},
    {at::kFloat8_e4m3fn, DType::kF8E4M3FN},
    {at::kFloat8_e4m3fnuz, DType::kF8E4M3FNUZ},
    {at::kFloat8_e5m2, DType::kF8E5M2},
    {at::kFloat8_e5m2fnuz, DType::kF8E5M2FNUZ},
};

constexpr auto kByScalarType = [] {
  std::array<int8_t, static_cast<size_t>(at::ScalarType::NumOptions)> table{};
  table.fill(-1);
  for (const auto& [torch, ours] : kPairs) table[static_cast<size_t>(torch)] = static_cast<int8_t>(ours);
  return table;
}();

}  // namespace

DType to_dtype(at::ScalarType t) {
  const auto i = static_cast<size_t>(t);
  const int8_t found = i < kByScalarType.size() ? kByScalarType[i] : -1;
  TORCH_CHECK_TYPE(found >= 0, "device tpu has no dtype ", at::toString(t));
  return static_cast<DType>(found);
}

at::ScalarType to_scalar_type(DType t) {
  for (const auto& [torch, ours] : kPairs) {
    if (ours == t) return torch;
  }
  TORCH_INTERNAL_ASSERT(false);
}

}  // namespace tpu::aten
