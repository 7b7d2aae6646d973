// Losses of two tensors of one shape, and their derivatives.
#include "ops/losses.h"

#include "ops/families.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

Dims common_dims(const Value& x, const Value& y) {
  Dims dims = x.rank() >= y.rank() ? x.dims() : y.dims();
  const Dims& shorter = x.rank() >= y.rank() ? y.dims() : x.dims();
  const size_t added = dims.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    if (dims[added + i] == 1) dims[added + i] = shorter[i];
  }
  return dims;
}

Value difference(Builder& b, Value x, Value y) {
  const Dims dims = common_dims(x, y);
  return b.sub(b.broadcast_to(x, dims), b.broadcast_to(y, dims));
}

Value constant(Builder& b, double v, Value like) { return b.scalar(v, like.dtype()); }

// As many losses as `self` has elements, however far it is broadcast.
Value of_each(Builder& b, const Call& call, Value grad, int64_t how) {
  return ops::of_each(b, grad, how, call.operands[1]->numel());
}

void add_distances(Table& ops) {
  ops.add("mse_loss", reduction, [](Builder& b, Value x, Value y, int64_t how) {
    const Value d = difference(b, x, y);
    return reduce_loss(b, b.mul(d, d), how);
  });
  ops.add("mse_loss_backward", pointwise,
          [](Builder& b, const Call& call, Value grad, Value x, Value y, int64_t how) {
            return b.mul(b.mul(constant(b, 2, x), b.sub(x, y)), of_each(b, call, grad, how));
          })
      .results(like<1>);
  ops.add("smooth_l1_loss", reduction, [](Builder& b, Value x, Value y, int64_t how, Scalar beta) {
    const Value z = b.abs(difference(b, x, y)), half = constant(b, 0.5, x);
    const Value near = b.div(b.mul(b.mul(z, z), half), beta), far = b.sub(z, b.mul(half, beta));
    return reduce_loss(b, b.select(b.lt(z, beta), near, far), how);
  });
  ops.add("smooth_l1_loss_backward", pointwise,
          [](Builder& b, const Call& call, Value grad, Value x, Value y, int64_t how, Scalar beta) {
            const Value d = b.sub(x, y), g = of_each(b, call, grad, how);
            const Value outer = b.select(b.ge(d, beta), g, b.div(b.mul(g, d), beta));
            return b.select(b.le(d, b.neg(beta)), b.neg(g), outer);
          })
      .results(like<1>);
  ops.add("huber_loss", reduction, [](Builder& b, Value x, Value y, int64_t how, Scalar delta) {
    const Value z = b.abs(difference(b, x, y)), half = constant(b, 0.5, x);
    const Value near = b.mul(b.mul(z, z), half), far = b.mul(delta, b.sub(z, b.mul(half, delta)));
    return reduce_loss(b, b.select(b.le(z, delta), near, far), how);
  });
  ops.add("huber_loss_backward", pointwise,
          [](Builder& b, const Call& call, Value grad, Value x, Value y, int64_t how, Scalar delta) {
            const Value d = b.sub(x, y), g = of_each(b, call, grad, how);
            const Value outer = b.select(b.ge(d, delta), b.mul(g, delta), b.mul(g, d));
            return b.select(b.le(d, b.neg(delta)), b.neg(b.mul(g, delta)), outer);
          })
      .results(like<1>);
  ops.add("soft_margin_loss", reduction,
          [](Builder& b, Value x, Value y, int64_t how) {
            const Dims dims = common_dims(x, y);
            return reduce_loss(b, b.log1p(b.exp(b.mul(b.neg(b.broadcast_to(x, dims)), b.broadcast_to(y, dims)))), how);
          })
      .refuses(broadcast_together);
  ops.add("soft_margin_loss_backward", pointwise,
          [](Builder& b, const Call& call, Value grad, Value x, Value y, int64_t how) {
            const Value z = b.logistic(b.neg(b.mul(y, x)));
            return b.mul(b.neg(b.mul(y, z)), of_each(b, call, grad, how));
          })
      .results(like<1>);
}

void add_cross_entropies(Table& ops) {
  ops.add("binary_cross_entropy", reduction, [](Builder& b, Value x, Value y, optional<Value> weight, int64_t how) {
    const Value least = constant(b, -100, x), one = constant(b, 1, x);
    const Value log_x = b.max(b.log(x), least), log_rest = b.max(b.log1p(b.neg(x)), least);
    Value loss = b.sub(b.mul(b.sub(y, one), log_rest), b.mul(y, log_x));
    if (weight) loss = b.mul(loss, b.broadcast_to(*weight, loss.dims()));
    return reduce_loss(b, loss, how);
  });
  ops.add("binary_cross_entropy_backward", pointwise,
          [](Builder& b, const Call& call, Value grad, Value x, Value y, optional<Value> weight, int64_t how) {
            const Value variance = b.max(b.mul(b.sub(constant(b, 1, x), x), x), constant(b, 1e-12, x));
            const Value slope = b.div(b.mul(grad, b.sub(x, y)), variance);
            return of_each(b, call, weight ? b.mul(slope, *weight) : slope, how);
          })
      .results(like<1>);
  ops.add("binary_cross_entropy_with_logits", reduction,
          [](Builder& b, Value x, Value y, optional<Value> weight, optional<Value> pos_weight, int64_t how) {
            const Dims dims = common_dims(x, y);
            x = b.broadcast_to(x, dims);
            y = b.broadcast_to(y, dims);
            const Value zero = constant(b, 0, x), one = constant(b, 1, x);
            const Value log_sigmoid = b.sub(b.min(x, zero), b.log1p(b.exp(b.neg(b.abs(x)))));
            Value of_truth = log_sigmoid;
            if (pos_weight) {
              const Value w = b.broadcast_to(*pos_weight, dims);
              of_truth = b.mul(log_sigmoid, b.add(b.mul(b.sub(w, one), y), one));
            }
            Value loss = b.sub(b.mul(b.sub(one, y), x), of_truth);
            if (weight) loss = b.mul(loss, b.broadcast_to(*weight, dims));
            return reduce_loss(b, loss, how);
          });
}

}  // namespace

void add_loss(Table& ops) {
  add_distances(ops);
  add_cross_entropies(ops);
}

}  // namespace tpu::ops
