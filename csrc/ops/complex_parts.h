// Complex numbers by their parts. Real values pass through.
#pragma once

#include "hlo/builder.h"

namespace tpu::ops {

inline hlo::Value conj(hlo::Builder& b, hlo::Value x) {
  return is_complex(x.dtype()) ? b.complex(b.real(x), b.neg(b.imag(x))) : x;
}

}  // namespace tpu::ops
