// torch_tpu._C: what the Python side needs of the backend.

#include <torch/csrc/utils/pybind.h>

#include "aten/errors.h"
#include "aten/growth.h"
#include "aten/meta.h"
#include "aten/registration.h"
#include "cache/store.h"
#include "distributed/process_group.h"
#include "ops/row.h"
#include "python/cache.h"
#include "python/decompose.h"
#include "python/device.h"
#include "python/explain.h"
#include "python/graph.h"
#include "python/line.h"
#include "python/programs.h"
#include "python/topology.h"
#include "runtime/region.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using runtime::Mode;

void warn(const std::string& text) {
  try {
    TORCH_WARN(text);
  } catch (const std::exception&) {  // warnings may be errors; here they cannot be
  }
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  distributed::declare_operators();
  aten::register_operators();
  register_decompose();
  register_lines();
  cache::set_warning_sink(&warn);

  m.attr("torch_version") = TORCH_TPU_TORCH_VERSION;
  m.attr("version") = TORCH_TPU_VERSION;

  m.def("set_library_folders", &set_library_folders);

  bind_device(m);
  bind_cache(m);
  bind_graph(m);
  bind_programs(m);
  bind_explain(m);
  bind_topology(m);
  m.def("make_process_group", &distributed::make_process_group, py::call_guard<py::gil_scoped_release>());
  m.def("op_names", [] {
    std::vector<std::string> names;
    for (const auto& [name, row] : ops::table().rows()) names.push_back(name);
    return names;
  });

  m.def("mode", [] { return static_cast<int>(runtime::Region::current().mode()); });
  m.def(
      "set_mode", [](int mode) { aten::check(runtime::Region::current().set_mode(static_cast<Mode>(mode))); },
      py::call_guard<py::gil_scoped_release>());
  m.def("dynamism", [] { return static_cast<int>(aten::dynamism()); });
  m.def("set_dynamism", [](int level) { aten::set_dynamism(static_cast<aten::Dynamism>(level)); });
  m.def("set_default_mode", [](int mode) { runtime::set_default_mode(static_cast<Mode>(mode)); });
}

}  // namespace tpu::python
