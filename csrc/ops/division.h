// Division as IEEE has it.
#pragma once

#include "hlo/builder.h"

namespace tpu::ops {

// x / y where y may be a broadcast value. The compiler would multiply with the inverse of such a divisor, so that 49 /
// 49 is no longer 1 and inf / 3e38 is NaN: it may not see that this one is the same along a dimension.
inline hlo::Value divide_by_broadcast(hlo::Builder& b, hlo::Value x, hlo::Value y) {
  if (!is_float(x.dtype())) return b.div(x, y);
  return b.div(x, b.select(b.is_nan(y), b.add(x, y), y));
}

}  // namespace tpu::ops
