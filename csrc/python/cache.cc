#include "python/cache.h"

#include "cache/entry.h"
#include "cache/remote.h"
#include "cache/store.h"
#include "cache/target.h"
#include "python/interrupt.h"
#include "runtime/device.h"
#include "runtime/made.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

void check_entry(const Status& status) {
  if (!status.ok()) throw py::value_error(status.message());
}

py::dict label(std::string_view front) {
  const auto found = cache::read_label(front);
  check_entry(found.status());
  py::dict d;
  d["key"] = found->key.hex();
  d["name"] = found->about.name;
  d["made_by"] = found->about.made_by;
  d["program_size"] = found->program_size;
  d["executable_size"] = found->executable_size;
  return d;
}

py::list log() {
  py::list all;
  for (const runtime::Made& made : runtime::made_since(0)) {
    py::dict d;
    d["name"] = made.program->name;
    d["structure"] = made.key.structure;
    d["dimensions"] = made.key.dimensions;
    d["options"] = made.key.options;
    d["from"] = name_of(made.from);
    d["seconds"] = static_cast<double>(made.ns) * 1e-9;
    all.append(std::move(d));
  }
  return all;
}

py::dict traffic() {
  py::dict d;
  for (const cache::Tier tier : {cache::Tier::kShared, cache::Tier::kDisk, cache::Tier::kRemote}) {
    d[py::str(std::string(name_of(tier)) + "_bytes_read")] = cache::traffic(tier).read.load();
    d[py::str(std::string(name_of(tier)) + "_bytes_written")] = cache::traffic(tier).written.load();
  }
  return d;
}

// What this process's entries say of who made them; "" before the device has started.
std::string made_by() {
  if (!runtime::Device::started()) return "";
  const auto device = runtime::Device::get();
  return device.ok() ? cache::made_by((*device)->client(), (*device)->compile_options()) : "";
}

void leave() {
  if (!runtime::Device::started()) return;
  const auto device = runtime::Device::get();
  if (device.ok()) (*device)->store().leave();
}

// (kind, id, name, bytes), or None at the end.
py::object next_task(bool reads) {
  std::optional<cache::Courier::Task> task;
  {
    const py::gil_scoped_release unlocked;
    task = cache::Courier::get().next(reads);
  }
  if (!task) return py::none();
  constexpr const char* kKinds[] = {"get", "put", "remove"};
  return py::make_tuple(kKinds[task->kind], task->id, task->name, py::bytes(task->bytes));
}

void task_done(uint64_t id, std::optional<std::string_view> bytes, const std::string& error) {
  using Answer = std::optional<std::string>;
  Answer answer;
  if (bytes) answer.emplace(*bytes);
  const py::gil_scoped_release unlocked;
  if (error.empty()) return cache::Courier::get().done(id, std::move(answer));
  cache::Courier::get().done(id, Status(Code::kUnavailable, error));
}

}  // namespace

const char* name_of(cache::Tier tier) {
  switch (tier) {
    case cache::Tier::kShared: return "shared";
    case cache::Tier::kDisk: return "disk";
    case cache::Tier::kRemote: return "remote";
    case cache::Tier::kCompiled: break;
  }
  return "compiled";
}

void bind_cache(py::module_& m) {
  m.attr("cache_label_size") = cache::kLabelSize;
  cache::set_interrupt_check(&interrupted);
  cache::set_blocks_couriers([] { return PyGILState_Check() != 0; });
  m.def("remote_next", &next_task);
  m.def("remote_done", &task_done);
  m.def("remote_reset", &cache::Courier::reset);
  m.def(
      "remote_close", [] { cache::Courier::get().close(cache::remote_limit()); },
      py::call_guard<py::gil_scoped_release>());
  m.def("cache_log", &log);
  m.def("cache_traffic", &traffic);
  m.def("cache_leave", &leave, py::call_guard<py::gil_scoped_release>());
  m.def("cache_place", &cache::Store::place);
  m.def("cache_budget", &cache::Store::budget);
  m.def("cache_label", &label);
  m.def("cache_made_by", &made_by);
  m.def("cache_verify", [](std::string_view bytes) { check_entry(cache::verify(bytes)); });
}

}  // namespace tpu::python
