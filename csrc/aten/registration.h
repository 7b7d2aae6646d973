// Which overloads of PyTorch's operators the engine serves.
#pragma once

#include "aten/plan.h"

namespace tpu::aten {

// dst.copy_(src) where both are tpu tensors, or src is a 0-d CPU tensor.
void copy_on_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

}  // namespace tpu::aten
