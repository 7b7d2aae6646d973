#include "ops/families.h"

namespace tpu::ops {

void add_softmax(Table&) {}

}  // namespace tpu::ops
