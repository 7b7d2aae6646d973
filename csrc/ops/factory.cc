#include "ops/families.h"

namespace tpu::ops {

void add_factory(Table&) {}

}  // namespace tpu::ops
