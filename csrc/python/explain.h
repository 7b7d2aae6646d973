// Bindings of what tells why programs were compiled, and of the launches of a while.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace tpu::python {

void bind_explain(pybind11::module_& m);

}  // namespace tpu::python
