// Collects the programs that a process asks for, to be compiled for another target.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace tpu::python {

void bind_programs(pybind11::module_& m);

}  // namespace tpu::python
