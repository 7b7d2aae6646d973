#include "python/device.h"

#include "aten/errors.h"
#include "aten/fallback.h"
#include "aten/generator.h"
#include "aten/synchronize.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/residence.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

py::dict compile_stats() {
  const runtime::Counters& c = runtime::counters();
  const runtime::MemoryFigures m = runtime::memory().figures();
  const runtime::Residence::Figures programs = runtime::Residence::figures();
  py::dict d;
  d["compiles"] = c.compiles.load();
  d["memory_hits"] = c.memory_hits.load();
  d["shared_hits"] = c.shared_hits.load();
  d["disk_hits"] = c.disk_hits.load();
  d["remote_hits"] = c.remote_hits.load();
  d["programs"] = programs.programs;
  d["program_bytes"] = programs.bytes;
  d["evictions"] = programs.dropped;
  d["executions"] = c.executions.load();
  d["unfused"] = c.unfused.load();
  d["ops_recorded"] = c.ops_recorded.load();
  d["materializations"] = c.materializations.load();
  d["cpu_fallbacks"] = c.cpu_fallbacks.load();
  d["decompositions"] = c.decompositions.load();
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
  d["most_buffers"] = m.most_buffers;
  d["allocations"] = m.allocations;
  d["frees"] = m.frees;
  d["allocated_bytes"] = m.allocated_bytes;
  d["out_of_memory"] = m.out_of_memory;
  return d;
}

py::dict device_info() {
  const runtime::Device* found = nullptr;
  {
    const py::gil_scoped_release unlocked;
    found = aten::check(runtime::Device::get());
  }
  const runtime::Device& device = *found;
  const auto& plugin = device.client().plugin();
  py::dict d;
  d["plugin"] = plugin.path();
  d["api_version"] = plugin.api_version();
  d["platform"] = device.client().platform_name();
  d["platform_version"] = device.client().platform_version();
  d["attributes"] = plugin.attributes();
  d["kind"] = device.client().devices().front().kind;
  const auto memory = device.client().memory_limit(0);
  d["memory"] = memory.ok() ? *memory : 0;
  d["description"] = device.client().devices().front().description;
  return d;
}

}  // namespace

void bind_device(py::module_& m) {
  m.def("configure",
        [](const std::string& plugin, const pjrt::Options& options) { runtime::Device::configure({plugin, options}); });
  m.def("configured", &runtime::Device::configured);
  m.def("device_info", &device_info);
  m.def("started", &runtime::Device::started);
  m.def("forked", &runtime::Device::forked);
  m.def("synchronize", &aten::synchronize, py::call_guard<py::gil_scoped_release>());
  m.def("idle", &aten::idle);
  m.def("elapsed_time", &aten::elapsed_time);
  m.def("compile_stats", &compile_stats);
  m.def("fallback_counts", &aten::fallback_counts);
  m.def("default_generator", &aten::default_generator);

  m.def("memory_figures", &memory_figures);
  m.def("live_memory", [](size_t most) { return runtime::memory().live(most); });
  m.def("reset_peak", [] { runtime::memory().reset_peak(); });
  m.def("reset_accumulated", [] { runtime::memory().reset_accumulated(); });
  m.def("set_memory_limit", [](int64_t bytes) { runtime::memory().set_limit(bytes); });
}

}  // namespace tpu::python
