#include "ops/families.h"

namespace tpu::ops {

void add_resampling(Table&) {}

}  // namespace tpu::ops
