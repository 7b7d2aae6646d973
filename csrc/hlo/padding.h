// A value may be larger than what it means: in some dimensions elements stand behind the logical size, and hold
// anything. So one program serves all sizes up to that of the value; the sizes come at run time.
#pragma once

#include "hlo/view.h"

namespace tpu::hlo {

// A geometry over `logical` as one over `physical`, its padded form (equal dtype and rank, no dimension smaller, no
// element without a place). False where it runs from one end of a padded dimension into the next row.
bool place_in_padded(const Type& logical, const Type& physical, const Geometry& geometry, Dims& strides,
                     int64_t& offset);

// What has to stand behind the logical size for an operation that looks there.
enum class Fill : uint8_t { kAny, kZero, kOne, kLowest, kHighest };

// (value, logical size of each of `dims`...) -> the value with `fill` behind them. Sizes are of kSizeDType.
const Call* mask_padding(const Type* type, const Dims& dims, Fill fill);

// (value) -> its elements, of type `logical`, kept apart from what is done with them.
const Call* crop_padding(const Type* physical, const Type* logical);

// (parts..., logical size along `dim` of each part that `padded` names by position...) -> the parts one after the other
// in front of `result`, which has room for them.
const Call* cat_padded(const std::vector<const Type*>& parts, int64_t dim, const Dims& padded, const Type* result);

inline constexpr DType kSizeDType = DType::kS32;

}  // namespace tpu::hlo
