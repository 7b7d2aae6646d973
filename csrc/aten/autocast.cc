// torch.autocast("tpu"): which operators run in the lower precision, which in float32. PyTorch's own lists.

#include <ATen/autocast_mode.h>

namespace tpu::aten {
namespace {

using namespace at;  // PyTorch's macros name its types so

Tensor binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: log of a low "
              "precision sigmoid loses the small probabilities. Use binary_cross_entropy_with_logits or "
              "BCEWithLogitsLoss, which are safe");
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TPU_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TPU_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TPU_FP32_OUT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TPU_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(TPU_LOWER)
  AT_FORALL_FP32(TPU_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TPU_FP32_OUT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(TPU_PROMOTE)
#undef TPU_LOWER
#undef TPU_FP32
#undef TPU_FP32_OUT
#undef TPU_PROMOTE
  m.impl("binary_cross_entropy", TORCH_FN(binary_cross_entropy));
}

}  // namespace
}  // namespace tpu::aten
