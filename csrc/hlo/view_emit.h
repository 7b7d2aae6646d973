// The StableHLO of reading and writing a ViewClass.
#pragma once

#include "hlo/view.h"

namespace tpu::hlo {

// Sets view.read and view.write from the rest of it.
void make_view_calls(ViewClass& view);

// What memory holds that nobody wrote: torch.empty reads as zeros. Interned.
const Call* undefined(const Type* type);

// The elements of `x` in memory order as another dtype, as PyTorch's view(dtype) and view_as_real mean it: rank 1.
Value reinterpret(Builder& b, Value x, DType dtype);

}  // namespace tpu::hlo
