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

// Code objects that a node names must outlive it; a program has few, so each is kept once, for ever. The table is small
// and direct-mapped: a code object that was pushed out is kept again, which costs a reference and no more.
void keep(PyCodeObject* code) {
  static std::array<PyCodeObject*, 1024> kept{};  // guarded by the GIL
  PyCodeObject*& slot = kept[(reinterpret_cast<uintptr_t>(code) >> 5) % kept.size()];
  if (slot == code) return;
  Py_INCREF(code);
  slot = code;
}

runtime::Line current() {
  if (!PyGILState_Check()) return {};  // an autograd thread
  const PyThreadState* state = PyThreadState_GET();
  if (state == nullptr || state->cframe == nullptr) return {};
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
