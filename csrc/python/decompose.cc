#include "python/decompose.h"

#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/decompose.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

// torch_tpu._decompose.find(name, overload) -> a callable or None
py::object find(const c10::OperatorName& name) {
  static py::handle finder;  // never released: threads may ask while the interpreter ends
  if (!finder) finder = py::object(py::module_::import("torch_tpu._decompose").attr("find")).release();
  return finder(name.name, name.overload_name);
}

// On the stack a ScalarType, a Layout and a MemoryFormat are ints.
py::object to_python(const c10::IValue& v, const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (v.isInt()) {
    if (type->kind() == c10::TypeKind::ScalarTypeType) return py::cast(v.toScalarType());
    if (type->kind() == c10::TypeKind::LayoutType) return py::cast(v.toLayout());
    if (type->kind() == c10::TypeKind::MemoryFormatType) return py::cast(v.toMemoryFormat());
  }
  return torch::jit::toPyObject(v);
}

bool decompose(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const py::gil_scoped_acquire gil;
  const py::object function = find(op.operator_name());
  if (function.is_none()) return false;
  const auto& schema = op.schema();
  py::list positional;
  py::dict named;
  for (size_t i = 0; i < stack->size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    py::object v = to_python((*stack)[i], argument);
    if (argument.kwarg_only()) {
      named[argument.name().c_str()] = std::move(v);
    } else {
      positional.append(std::move(v));
    }
  }
  const py::object result = function(*positional, **named);
  if (result.ptr() == Py_NotImplemented) return false;
  stack->clear();
  const auto& returns = schema.returns();
  if (returns.size() == 1) {
    stack->push_back(torch::jit::toIValue(result, returns[0].type()));
  } else {
    const auto parts = py::cast<py::sequence>(result);
    for (size_t i = 0; i < returns.size(); ++i) {
      // A decomposition gives None where the operator gives an undefined tensor.
      const py::object part = parts[i];
      stack->push_back(part.is_none() && returns[i].type()->kind() == c10::TypeKind::TensorType
                           ? c10::IValue(at::Tensor())
                           : torch::jit::toIValue(part, returns[i].type()));
    }
  }
  return true;
}

}  // namespace

void register_decompose() { aten::set_decompose(&decompose); }

}  // namespace tpu::python
