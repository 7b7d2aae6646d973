#include "ops/families.h"

namespace tpu::ops {

void add_index(Table&) {}

}  // namespace tpu::ops
