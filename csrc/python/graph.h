// torch_tpu._C.Graph: what torch.compile's backend runs its graphs with.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace tpu::python {

void bind_graph(pybind11::module_& m);

}  // namespace tpu::python
