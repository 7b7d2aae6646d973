// Autograd on the device's terms: backward goes on in the region of the thread that asked for it.

#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>

#include "aten/pch.h"
#include "runtime/region.h"

namespace tpu::aten {
namespace {

// By default PyTorch runs the backward of each device on a thread of that device's own. Ours would then record into
// another region: every value that crosses over cuts one, and the modes of the calling thread do not hold. On one
// stream of launches such a thread gains nothing either, so a thread that records takes its backward itself. What
// torch.autograd.set_multithreading_enabled() says later goes.
[[maybe_unused]] const bool registered = [] {
  runtime::set_thread_hook([] {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    at::autocast::set_autocast_dtype(at::kPrivateUse1, at::kBFloat16);  // what a TPU is made for
  });
  return true;
}();

// PyTorch asks before `x.data = y`, which makes x a shallow copy of y. Tensors of tpu are plain TensorImpls like those
// of CPU, so that either may become the other, as on CUDA.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && !t.is_quantized() && !t.unsafeGetTensorImpl()->is_python_dispatch() &&
           (t.device().type() == at::kPrivateUse1 || t.is_cpu());
  };
  return self.key_set() == from.key_set() || (plain(self) && plain(from));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace
}  // namespace tpu::aten
