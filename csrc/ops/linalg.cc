#include "ops/families.h"

namespace tpu::ops {

void add_linalg(Table&) {}

}  // namespace tpu::ops
