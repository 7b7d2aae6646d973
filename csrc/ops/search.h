// Places in sorted rows.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// How many elements of `sorted` stand before each of `v` (s32): those less than it, or with `right` also its equals.
// Either one row for all of v (rank 1), or one for each row of v.
Value search(Builder& b, Value sorted, Value v, bool right);

}  // namespace tpu::ops
