// Bindings of the device: its start, memory, counters and generator.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace tpu::python {

void bind_device(pybind11::module_& m);

}  // namespace tpu::python
