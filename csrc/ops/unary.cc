#include "ops/families.h"

namespace tpu::ops {

void add_unary(Table&) {}

}  // namespace tpu::ops
