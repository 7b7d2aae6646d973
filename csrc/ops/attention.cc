#include "ops/families.h"

namespace tpu::ops {

void add_attention(Table&) {}

}  // namespace tpu::ops
