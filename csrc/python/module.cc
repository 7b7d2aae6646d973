// torch_tpu._C: what the Python side needs of the backend.

#include <torch/csrc/utils/pybind.h>

#include "aten/errors.h"
#include "aten/fallback.h"
#include "aten/generator.h"
#include "aten/meta.h"
#include "aten/synchronize.h"
#include "ops/row.h"
#include "python/decompose.h"
#include "python/line.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/region.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using runtime::Mode;

void import_meta() {
  const py::gil_scoped_acquire gil;
  static bool done = false;
  if (std::exchange(done, true)) return;
  py::module_::import("torch._meta_registrations");
}

py::dict compile_stats() {
  const runtime::Counters& c = runtime::counters();
  const runtime::MemoryFigures m = runtime::memory().figures();
  py::dict d;
  d["compiles"] = c.compiles.load();
  d["memory_hits"] = c.memory_hits.load();
  d["shared_hits"] = c.shared_hits.load();
  d["disk_hits"] = c.disk_hits.load();
  d["executions"] = c.executions.load();
  d["ops_recorded"] = c.ops_recorded.load();
  d["materializations"] = c.materializations.load();
  d["cpu_fallbacks"] = c.cpu_fallbacks.load();
  d["plans"] = c.plans.load();
  d["compile_ns"] = c.compile_ns.load();
  d["peak_bytes"] = m.peak;
  return d;
}

py::dict memory_figures() {
  const runtime::MemoryFigures m = runtime::memory().figures();
  py::dict d;
  d["live"] = m.live;
  d["peak"] = m.peak;
  d["limit"] = m.limit;
  d["largest"] = m.largest;
  d["buffers"] = m.buffers;
  d["allocations"] = m.allocations;
  d["frees"] = m.frees;
  d["out_of_memory"] = m.out_of_memory;
  return d;
}

py::dict device_info() {
  const runtime::Device& device = *aten::check(runtime::Device::get());
  const auto& plugin = device.client().plugin();
  py::dict d;
  d["plugin"] = plugin.path();
  d["api_version"] = plugin.api_version();
  d["platform"] = device.client().platform_name();
  d["platform_version"] = device.client().platform_version();
  d["attributes"] = plugin.attributes();
  d["kind"] = device.client().devices().front().kind;
  d["description"] = device.client().devices().front().description;
  return d;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  aten::set_meta_importer(&import_meta);
  register_decompose();
  register_lines();

  m.attr("torch_version") = TORCH_TPU_TORCH_VERSION;
  m.attr("version") = TORCH_TPU_VERSION;

  m.def("configure",
        [](const std::string& plugin, const pjrt::Options& options) { runtime::Device::configure({plugin, options}); });
  m.def("device_info", &device_info);
  m.def("started", &runtime::Device::started);
  m.def("synchronize", &aten::synchronize, py::call_guard<py::gil_scoped_release>());
  m.def("idle", &aten::idle);
  m.def("compile_stats", &compile_stats);
  m.def("memory_figures", &memory_figures);
  m.def("reset_peak", [] { runtime::memory().reset_peak(); });
  m.def("set_memory_limit", [](int64_t bytes) { runtime::memory().set_limit(bytes); });
  m.def("fallback_counts", &aten::fallback_counts);
  m.def("op_names", [] {
    std::vector<std::string> names;
    for (const auto& [name, row] : ops::table().rows()) names.push_back(name);
    return names;
  });
  m.def("default_generator", &aten::default_generator);

  m.def("mode", [] { return static_cast<int>(runtime::Region::current().mode()); });
  m.def(
      "set_mode", [](int mode) { aten::check(runtime::Region::current().set_mode(static_cast<Mode>(mode))); },
      py::call_guard<py::gil_scoped_release>());
  m.def("set_default_mode", [](int mode) { runtime::set_default_mode(static_cast<Mode>(mode)); });
}

}  // namespace tpu::python
