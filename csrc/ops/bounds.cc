#include "ops/bounds.h"

namespace tpu::ops {

Value bounds(Builder& b, Value index, int64_t size, int64_t low) {
  const int64_t n = index.numel();
  if (n == 0) return passes(b);
  const Value flat = b.convert(b.flatten(index), DType::kS64);
  const Value bad = b.or_(b.lt(flat, b.scalar_int(low, DType::kS64)), b.ge(flat, b.scalar_int(size, DType::kS64)));
  const Value place = b.select(bad, b.iota(DType::kS64, {n}, 0), b.scalar_int(n, DType::kS64));
  const Value first = b.reduce(hlo::Reduce::kMin, place, {0});
  const Value found = b.lt(first, b.scalar_int(n, DType::kS64));
  const Value parts[] = {b.reshape(b.convert(found, DType::kS64), {1}), b.dynamic_slice(flat, {first}, {1}),
                         b.array(std::array{size}, DType::kS64)};
  return b.concat({parts[0], parts[1], parts[2]}, 0);
}

Value first_failed(Builder& b, Value check, Value next) {
  const Value failed = b.ne(b.slice_dim(check, 0, 0, 1), b.full(0, DType::kS64, {1}));
  return b.select(b.reshape(failed, {}), check, next);
}

Value passes(Builder& b) { return b.full(0, DType::kS64, {3}); }

}  // namespace tpu::ops
