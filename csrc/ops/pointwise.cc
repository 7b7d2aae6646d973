#include "ops/families.h"

namespace tpu::ops {

void add_pointwise(Table& ops) {
  ops.add("add.Tensor", pointwise,
          [](Builder& b, Value x, Value y, Scalar alpha) { return b.add(x, alpha.is(1) ? y : b.mul(y, alpha)); });
  ops.add("sub.Tensor", pointwise,
          [](Builder& b, Value x, Value y, Scalar alpha) { return b.sub(x, alpha.is(1) ? y : b.mul(y, alpha)); });
  ops.add("mul.Tensor", pointwise, [](Builder& b, Value x, Value y) { return b.mul(x, y); });
  ops.add("fill.Scalar", broadcasting,
          [](Builder& b, const Call& call, Value, Scalar v) { return b.broadcast_to(v, call.results[0]->dims); });
  ops.add("copy", broadcasting, [](Builder&, Value, Raw src, bool) { return Value(src); });
}

}  // namespace tpu::ops
