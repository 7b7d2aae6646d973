// CTC loss. Lengths come as lists of Python ints: they are brought to the device, so that one program serves all
// batches of a size.
#include "ops/ctc.h"
#include "aten/copy.h"
#include "aten/dtype.h"
#include "aten/engine.h"
#include "aten/record.h"

namespace tpu::aten {
namespace {

const hlo::Type* type_of(at::ScalarType dtype, at::IntArrayRef sizes) {
  return hlo::intern({to_dtype(dtype), sizes.vec()});
}

at::Tensor on_device(at::IntArrayRef lengths) { return upload(at::tensor(lengths, at::kLong)); }

hlo::Call call_of(std::string_view name, hlo::Emit emit, std::vector<hlo::Attr> attributes) {
  hlo::Call call;
  call.name = name;
  call.emit = emit;
  call.attributes = std::move(attributes);
  return call;
}

void check_lengths(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef inputs,
                   at::IntArrayRef lengths, int64_t blank) {
  const int64_t steps = log_probs.size(0), rows = log_probs.size(1), classes = log_probs.size(2);
  TORCH_CHECK(targets.scalar_type() == at::kInt || targets.scalar_type() == at::kLong,
              "ctc_loss: targets must be int or long");
  TORCH_CHECK(0 <= blank && blank < classes, "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(inputs.size()) == rows, "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(lengths.size()) == rows, "target_lengths must be of size batch_size");
  int64_t sum = 0;
  for (int64_t i = 0; i < rows; ++i) {
    TORCH_CHECK(0 <= inputs[i] && inputs[i] <= steps, "Expected input_lengths to have value at most ", steps,
                ", but got value ", inputs[i]);
    TORCH_CHECK(lengths[i] >= 0, "Expected target_lengths to have value at least 0, but got value ", lengths[i]);
    TORCH_CHECK(targets.dim() == 1 || lengths[i] <= targets.size(1), "Expected tensor to have size at least ",
                lengths[i], " at dimension 1, but got size ", targets.sizes());
    sum += lengths[i];
  }
  TORCH_CHECK(targets.dim() != 1 || targets.size(0) == sum, "Expected tensor to have size ", sum,
              " at dimension 0, but got size ", targets.sizes());
}

std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                            at::IntArrayRef inputs, at::IntArrayRef lengths, int64_t blank, bool) {
  check_lengths(log_probs, targets, inputs, lengths, blank);
  const int64_t size = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  hlo::Call call = call_of("ctc_loss", &ops::emit_ctc_loss, {blank});
  call.results = {type_of(log_probs.scalar_type(), {log_probs.size(1)}),
                  type_of(log_probs.scalar_type(), {log_probs.size(1), log_probs.size(0), 2 * size + 1})};
  const auto made = record(std::move(call), {log_probs, targets, on_device(inputs), on_device(lengths)});
  return {made[0], made[1]};
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                             at::IntArrayRef inputs, at::IntArrayRef lengths, const at::Tensor& loss,
                             const at::Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  hlo::Call call = call_of("ctc_loss_backward", &ops::emit_ctc_loss_backward, {blank, zero_infinity});
  call.results = {type_of(log_probs.scalar_type(), log_probs.sizes())};
  return record(std::move(call), {grad, log_probs, targets, on_device(inputs), on_device(lengths), loss, log_alpha})[0];
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", TORCH_FN(ctc_loss));
  m.impl("_ctc_loss_backward", TORCH_FN(ctc_loss_backward));
}

}  // namespace
}  // namespace tpu::aten
