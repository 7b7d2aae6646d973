// Storage memory as PyTorch sees it: an address that is an identity and never read, and the cell behind it.
#pragma once

#include "aten/cell.h"

namespace tpu::aten {

c10::Allocator* allocator();
// Takes over `cell`.
at::DataPtr make_data_ptr(Cell* cell);

}  // namespace tpu::aten
