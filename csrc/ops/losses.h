// What the losses share.
#pragma once

#include "ops/reducing.h"

namespace tpu::ops {

enum LossReduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };  // at::Reduction

inline Value reduce_loss(Builder& b, Value loss, int64_t how) {
  if (how == kNone) return loss;
  const Value sum = b.reduce(hlo::Reduce::kAdd, loss, all_dims(loss));
  return how == kSum ? sum : b.div(sum, b.scalar(static_cast<double>(loss.numel()), loss.dtype()));
}

// The gradient of each of `n` losses.
inline Value of_each(Builder& b, Value grad, int64_t how, int64_t n) {
  return how == kMean ? b.div(grad, b.scalar(static_cast<double>(n), grad.dtype())) : grad;
}

}  // namespace tpu::ops
