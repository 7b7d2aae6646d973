#include "python/explain.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "python/cache.h"
#include "runtime/made.h"
#include "runtime/memory.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using runtime::Change;
using runtime::Made;
using Clock = std::chrono::steady_clock;  // which time.perf_counter() reads too

double seconds(Clock::time_point at) { return std::chrono::duration<double>(at.time_since_epoch()).count(); }

struct AttrObject {
  py::object operator()(std::monostate) const { return py::none(); }
  py::object operator()(DType v) const { return py::str(std::string(mlir_name(v))); }
  template <typename T>
  py::object operator()(const T& v) const {
    return py::cast(v);
  }
};
py::object object_of(const hlo::Attr& attr) { return std::visit(AttrObject{}, attr); }

py::object object_of(const hlo::Type& type, int32_t dim) {
  if (dim >= 0) return py::int_(type.dims[static_cast<size_t>(dim)]);
  return py::make_tuple(std::string(mlir_name(type.dtype)), type.dims);
}

// What stands at the place of a change in one of the two programs.
py::object found_at(const hlo::Call& call, const Change& change) {
  const auto i = static_cast<size_t>(change.index);
  switch (change.place) {
    case Change::kNode: break;
    case Change::kOperand: return object_of(*call.operands[i], change.dim);
    case Change::kAttribute: return object_of(call.attributes[i]);
    case Change::kResult: return object_of(*call.results[i], change.dim);
  }
  if (change.why == runtime::Why::kPrecision) {
    constexpr const char* kNames[] = {"default", "high", "highest"};
    return py::str(kNames[static_cast<size_t>(call.precision)]);
  }
  return py::str(std::string(call.name));
}

py::dict describe(const Change& change, const Made& made) {
  const auto node_of = [&](const runtime::Request& r) -> const runtime::Node* {
    return change.node < r.recording.nodes.size() ? &r.recording.nodes[change.node] : nullptr;
  };
  const runtime::Node *before = node_of(*made.before), *now = node_of(*made.program);
  constexpr const char* kPlaces[] = {"node", "operand", "attribute", "result"};
  py::dict d;
  d["why"] = runtime::name_of(change.why);
  d["place"] = kPlaces[change.place];
  d["node"] = change.node;
  d["index"] = change.index;
  d["dim"] = change.dim;
  d["from"] = before != nullptr ? found_at(*before->call, change) : py::none();
  d["to"] = now != nullptr ? found_at(*now->call, change) : py::none();
  d["line"] = runtime::describe(made.lines.at(change.node));
  if (now == nullptr) return d;
  d["op"] = std::string(now->call->name);
  py::list attributes;
  for (const hlo::Attr& attr : now->call->attributes) attributes.append(object_of(attr));
  d["attributes"] = attributes;
  return d;
}

py::dict describe(const Made& made) {
  const runtime::Program& program = *made.program;
  int64_t argument_bytes = 0;
  for (const uint32_t i : program.inputs) argument_bytes += program.recording.inputs[i]->bytes();
  py::dict d;
  d["number"] = made.number;
  d["program"] = reinterpret_cast<uintptr_t>(made.program);
  d["name"] = program.name;
  d["operators"] = std::count_if(program.recording.nodes.begin(), program.recording.nodes.end(),
                                 [](const runtime::Node& node) { return !runtime::is_view(*node.call); });
  d["key"] = made.key.hex();
  d["from"] = name_of(made.from);
  d["start"] = seconds(made.start);
  d["seconds"] = static_cast<double>(made.ns) * 1e-9;
  d["thread"] = made.thread;
  d["argument_bytes"] = argument_bytes;
  d["output_bytes"] = program.output_bytes;
  d["temporary_bytes"] = made.temporary_bytes;
  d["first_line"] = runtime::describe(made.lines.first());
  d["last_line"] = runtime::describe(made.lines.last());
  d["versions"] = made.versions;
  d["why"] = runtime::name_of(made.difference.why);
  py::list changes;
  for (const Change& change : made.difference.changes) changes.append(describe(change, made));
  d["changes"] = changes;
  return d;
}

py::list log(int64_t since, int64_t until) {
  py::list all;
  for (const Made& made : runtime::made_since(since)) {
    if (made.number >= until) break;
    all.append(describe(made));
  }
  return all;
}

py::list storms() {
  py::list all;
  for (const runtime::Storm& storm : runtime::storms()) {
    py::dict d;
    d["versions"] = storm.versions;
    d["seconds"] = static_cast<double>(storm.ns) * 1e-9;
    d["last"] = describe(storm.last);
    all.append(std::move(d));
  }
  return all;
}

// --- telling Python, between two of its instructions ---

std::atomic<bool> each{false}, asked{false};
PyObject* listener = nullptr;  // with the GIL

int tell(void*) {
  asked.store(false);
  if (listener == nullptr) return 0;
  const py::object result = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(listener));
  if (!result) PyErr_WriteUnraisable(listener);  // nobody called us who could be told
  return 0;
}

// Needs no GIL. Where the queue of such calls is full, the next program asks again.
void made(bool storm) {
  if (!storm && !each.load(std::memory_order_relaxed)) return;
  if (asked.exchange(true)) return;
  if (Py_AddPendingCall(&tell, nullptr) != 0) asked.store(false);
}

void listen(py::object to, bool to_each) {
  PyObject* const old = std::exchange(listener, to.is_none() ? nullptr : to.release().ptr());
  Py_XDECREF(old);
  each.store(to_each);
  runtime::set_made_hook(listener != nullptr ? &made : nullptr);
}

// --- launches ---

struct Launched {
  const runtime::Program* program;
  Clock::time_point start;
  int64_t ns, live_bytes;
};
constexpr size_t kLaunchesKept = size_t{1} << 20;
struct Trace {
  std::mutex mutex;
  std::vector<Launched> launches;  // the first ones
  struct Total {
    int64_t times = 0, ns = 0;
  };
  std::unordered_map<const runtime::Program*, Total> totals;
};
Trace& trace() {
  static auto* const trace = new Trace;
  return *trace;
}

void launched(const runtime::Program& program, Clock::time_point start) {
  const int64_t ns = (Clock::now() - start).count();
  const int64_t live = runtime::memory().figures().live;
  Trace& t = trace();
  const std::lock_guard lock(t.mutex);
  Trace::Total& total = t.totals[&program];
  ++total.times;
  total.ns += ns;
  if (t.launches.size() < kLaunchesKept) t.launches.push_back({&program, start, ns, live});
}

void set_trace(bool on) {
  static const runtime::Watcher watching{[](const runtime::Program&, std::span<const runtime::Line>) {}, &launched};
  if (on) {
    Trace& t = trace();
    const std::lock_guard lock(t.mutex);
    t.launches.clear();
    t.totals.clear();
  }
  runtime::set_watcher(on ? &watching : nullptr);
}

py::dict traced() {
  Trace& t = trace();
  const std::lock_guard lock(t.mutex);
  py::list launches;
  for (const Launched& l : t.launches) {
    launches.append(py::make_tuple(reinterpret_cast<uintptr_t>(l.program), seconds(l.start),
                                   static_cast<double>(l.ns) * 1e-9, l.live_bytes));
  }
  py::dict totals;
  for (const auto& [program, total] : t.totals) {
    totals[py::int_(reinterpret_cast<uintptr_t>(program))] =
        py::make_tuple(total.times, static_cast<double>(total.ns) * 1e-9);
  }
  py::dict d;
  d["launches"] = launches;
  d["totals"] = totals;
  return d;
}

}  // namespace

void bind_explain(py::module_& m) {
  m.def("explain_log", &log);
  m.def("explain_count", &runtime::made_count);
  m.def("explain_storms", &storms);
  m.def("explain_storm_count", &runtime::storm_count);
  m.def("explain_listen", &listen);
  m.def("trace_launches", &set_trace);
  m.def("traced_launches", &traced);
}

}  // namespace tpu::python
