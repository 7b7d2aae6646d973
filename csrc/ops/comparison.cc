#include "ops/families.h"

namespace tpu::ops {

void add_comparison(Table&) {}

}  // namespace tpu::ops
