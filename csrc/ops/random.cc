#include "ops/families.h"

namespace tpu::ops {

void add_random(Table&) {}

}  // namespace tpu::ops
