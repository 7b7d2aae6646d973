// Numbers at equal distances.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// `steps` numbers from start to end, both included: as torch.linspace of type `result` has them.
Value spaced(Builder& b, Value start, Value end, int64_t steps, DType result);

}  // namespace tpu::ops
