#include "ops/families.h"

namespace tpu::ops {

void add_recurrent(Table&) {}

}  // namespace tpu::ops
