#include "ops/families.h"
#include "ops/growing.h"
#include "ops/reducing.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

// x less its maximum along `dim`: what is exponentiated is at most 1.
Value shifted(Builder& b, Value x, const Dims& dim) {
  x = b.settle(x);
  return b.sub(x, spread(b, b.reduce(Reduce::kMax, x, dim), x, dim));
}
Value sum_along(Builder& b, Value x, const Dims& dim) { return spread(b, b.reduce(Reduce::kAdd, x, dim), x, dim); }

}  // namespace

void add_softmax(Table& ops) {
  ops.add("_softmax", reduction,
          [](Builder& b, Value x, int64_t dim, bool) {
            const Dims over = reduced_dims(x, dim);
            const Value e = b.exp(shifted(b, x, over));
            return b.div(e, sum_along(b, e, over));
          })
      .refuses([](const Call& call) {
        TPU_RETURN_IF_ERROR(is_inexact(call));
        return dim_exists(call);
      })
      .in_result_dtype()
      .grows_by(grows_along<1>);
  ops.add("_log_softmax", reduction,
          [](Builder& b, Value x, int64_t dim, bool) {
            const Dims over = reduced_dims(x, dim);
            const Value s = shifted(b, x, over);
            return b.sub(s, spread(b, b.log(b.reduce(Reduce::kAdd, b.exp(s), over)), x, over));
          })
      .refuses([](const Call& call) {
        TPU_RETURN_IF_ERROR(is_inexact(call));
        return dim_exists(call);
      })
      .in_result_dtype()
      .grows_by(grows_along<1>);
  ops.add("_softmax_backward_data", reduction,
          [](Builder& b, Value grad, Value y, int64_t dim, DType) {
            const Value both = b.mul(grad, y);
            return b.sub(both, b.mul(y, sum_along(b, both, reduced_dims(y, dim))));
          })
      .grows_by(grows_along<2>);
  ops.add("_log_softmax_backward_data", reduction,
          [](Builder& b, Value grad, Value y, int64_t dim, DType) {
            return b.sub(grad, b.mul(b.exp(y), sum_along(b, grad, reduced_dims(y, dim))));
          })
      .grows_by(grows_along<2>);
}

}  // namespace tpu::ops
