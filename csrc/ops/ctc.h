// Connectionist temporal classification, for lengths that come at run time.
#pragma once

#include "hlo/call.h"

namespace tpu::ops {

// log_probs [t, n, c], targets [n, s] or all of them in a row, lengths of both [n]
//   -> loss [n], log_alpha [n, t, 2 s + 1]. Attributes: the blank class.
hlo::Values emit_ctc_loss(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
// grad [n], then as above, then both results -> the gradient of log_probs. Attributes: the blank class, whether
// infinite losses have none.
hlo::Values emit_ctc_loss_backward(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);

}  // namespace tpu::ops
