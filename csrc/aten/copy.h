// Between host and device.
#pragma once

#include "aten/pch.h"

namespace tpu::aten {

// A tpu tensor with the geometry and elements of a CPU tensor (contiguous where that is not dense).
at::Tensor upload(const at::Tensor& cpu);
// A CPU tensor with the elements of a tpu tensor. A sink.
at::Tensor download(const at::Tensor& tpu);
// The same with the strides of `tpu`, which is dense and shows its elements as they are (no conjugate or negative
// view).
at::Tensor download_dense(const at::Tensor& tpu);

}  // namespace tpu::aten
