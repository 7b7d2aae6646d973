#include "python/topology.h"

#include "aten/errors.h"
#include "pjrt/pjrt.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

py::dict describe(const pjrt::DeviceInfo& device) {
  py::dict d;
  d["id"] = device.id;
  d["kind"] = device.kind;
  d["description"] = device.description;
  d["attributes"] = device.attributes;
  return d;
}

py::dict memory(const pjrt::MemoryStats& stats) {
  py::dict d;
  d["arguments"] = stats.arguments;
  d["outputs"] = stats.outputs;
  d["temporaries"] = stats.temporaries;
  d["aliased"] = stats.aliased;
  d["code"] = stats.code;
  d["peak"] = stats.peak;
  return d;
}

std::unique_ptr<pjrt::Topology> open(const std::string& plugin, const std::string& name) {
  const pjrt::Plugin* loaded = aten::check(pjrt::Plugin::load(plugin));
  return aten::check(pjrt::Topology::create(*loaded, name));
}

std::unique_ptr<pjrt::Compiled> compile(
    const pjrt::Topology& topology, const std::string& program, int replicas, int partitions,
    const std::vector<int64_t>& devices,
    const std::map<std::string, std::variant<bool, int64_t, double, std::string>>& overrides) {
  pjrt::CompileOptions options;
  options.num_replicas = replicas;
  options.num_partitions = partitions;
  options.devices = devices;
  options.overrides = overrides;
  return aten::check(topology.compile(program, options.serialize()));
}

}  // namespace

void bind_topology(py::module_& m) {
  py::class_<pjrt::Compiled>(m, "Compiled")
      .def_property_readonly("memory", [](const pjrt::Compiled& c) { return memory(c.memory()); })
      .def_property_readonly("cost", &pjrt::Compiled::cost)
      .def("optimized_hlo", [](const pjrt::Compiled& c) { return py::bytes(aten::check(c.optimized_hlo())); })
      .def("serialize", [](const pjrt::Compiled& c) { return py::bytes(aten::check(c.serialize())); });
  py::class_<pjrt::Topology>(m, "Topology")
      .def(py::init(&open), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("platform", &pjrt::Topology::platform_name)
      .def_property_readonly("platform_version", &pjrt::Topology::platform_version)
      .def_property_readonly("attributes", &pjrt::Topology::attributes)
      .def_property_readonly("devices",
                             [](const pjrt::Topology& t) {
                               py::list list;
                               for (const pjrt::DeviceInfo& device : t.devices()) list.append(describe(device));
                               return list;
                             })
      .def("compile", &compile, py::call_guard<py::gil_scoped_release>());
}

}  // namespace tpu::python
