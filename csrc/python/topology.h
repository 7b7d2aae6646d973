// Compiling for devices that are not here.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace tpu::python {

void bind_topology(pybind11::module_& m);

}  // namespace tpu::python
