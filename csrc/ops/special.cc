#include "ops/families.h"

namespace tpu::ops {

void add_special(Table&) {}

}  // namespace tpu::ops
