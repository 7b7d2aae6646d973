// Bindings of the cache of compiled programs: what its entries say, for tools.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "cache/store.h"

namespace tpu::python {

// As Python calls it.
const char* name_of(cache::Tier tier);

void bind_cache(pybind11::module_& m);

}  // namespace tpu::python
