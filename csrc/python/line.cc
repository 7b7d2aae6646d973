#include "python/line.h"

#include <Python.h>

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <array>
#include <string>

#include "runtime/line.h"

namespace tpu::python {
namespace {

// A code object that a node names must outlive it: it is kept for ever, since a program has few. Each thread remembers
// those it has kept, so that the GIL, which PyTorch's bindings give up around an op, is taken once a code object.
void keep(PyCodeObject* code) {
  thread_local std::array<PyCodeObject*, 256> kept{};
  PyCodeObject*& slot = kept[(reinterpret_cast<uintptr_t>(code) >> 5) % kept.size()];
  if (slot == code) return;
  const PyGILState_STATE gil = PyGILState_Ensure();
  Py_INCREF(code);
  PyGILState_Release(gil);
  slot = code;
}

// The frame is that of this very thread, which is inside it: it cannot change, with or without the GIL.
runtime::Line current() {
  const PyThreadState* state = PyGILState_GetThisThreadState();
  if (state == nullptr || state->cframe == nullptr) return {};  // an autograd thread
  const _PyInterpreterFrame* frame = state->cframe->current_frame;
  if (frame == nullptr) return {};
  keep(frame->f_code);
  return {frame->f_code, static_cast<int32_t>(_PyInterpreterFrame_LASTI(frame) * sizeof(_Py_CODEUNIT))};
}

std::string describe(runtime::Line line) {
  const PyGILState_STATE gil = PyGILState_Ensure();
  auto* code = static_cast<PyCodeObject*>(const_cast<void*>(line.code));
  std::string text;
  if (const char* file = PyUnicode_AsUTF8(code->co_filename)) {
    text = std::string(file) + ":" + std::to_string(PyCode_Addr2Line(code, line.instruction));
  } else {
    PyErr_Clear();
  }
  PyGILState_Release(gil);
  return text;
}

}  // namespace

void register_lines() { runtime::set_line_source({&current, &describe}); }

}  // namespace tpu::python
