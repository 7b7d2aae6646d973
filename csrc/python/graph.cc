#include "python/graph.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "aten/graph.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

// `run`, in Python, from a list of tensors to a sequence of outputs: tensors, ints, floats or None.
torch::jit::Stack call(const py::function& run, const std::vector<at::Tensor>& tensors) {
  const py::gil_scoped_acquire gil;
  torch::jit::Stack outputs;
  for (const py::handle output : py::cast<py::sequence>(run(tensors))) {
    if (output.is_none()) {
      outputs.emplace_back();
    } else if (THPVariable_Check(output.ptr())) {
      outputs.emplace_back(THPVariable_Unpack(output.ptr()));
    } else if (py::isinstance<py::float_>(output)) {
      outputs.emplace_back(py::cast<double>(output));
    } else {
      outputs.emplace_back(py::cast<int64_t>(output));
    }
  }
  return outputs;
}

py::list run_graph(const aten::Graph& graph, const py::function& run, std::vector<at::Tensor> tensors,
                   const std::vector<int64_t>& sizes) {
  torch::jit::Stack outputs;
  {
    const py::gil_scoped_release no_gil;
    outputs = graph(std::move(tensors), sizes, [&](std::vector<at::Tensor> inner) { return call(run, inner); });
  }
  py::list list;
  for (c10::IValue& output : outputs) list.append(torch::jit::toPyObject(std::move(output)));
  return list;
}

}  // namespace

void bind_graph(py::module_& m) { py::class_<aten::Graph>(m, "Graph").def(py::init<>()).def("__call__", &run_graph); }

}  // namespace tpu::python
