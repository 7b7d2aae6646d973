// PyTorch's dtypes and ours.
#pragma once

#include "aten/pch.h"
#include "base/dtype.h"

namespace tpu::aten {

// Throws TypeError for dtypes the device does not have (quantized, complex32, ...).
DType to_dtype(at::ScalarType t);
at::ScalarType to_scalar_type(DType t);

}  // namespace tpu::aten
