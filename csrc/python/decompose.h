// PyTorch's Python decompositions, for operators without a row.
#pragma once

namespace tpu::python {

void register_decompose();

}  // namespace tpu::python
