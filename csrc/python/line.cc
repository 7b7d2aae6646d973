#include "python/line.h"

#include <Python.h>

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/line.h"

namespace tpu::python {
namespace {

std::vector<std::string> library_folders;  // with a slash at the end

// A code object that a node names must outlive it: it is kept for ever, since a program has few. Each thread remembers
// those it has kept, so that the GIL, which PyTorch's bindings give up around an op, is taken once a code object.
struct Kept {
  PyCodeObject* code = nullptr;
  bool named = false;    // its file's name is text, and its UTF-8 form is now held by the name itself
  bool library = false;  // of PyTorch or this package
};

const Kept& keep(PyCodeObject* code) {
  thread_local std::array<Kept, 512> kept{};
  Kept& slot = kept[(reinterpret_cast<uintptr_t>(code) >> 5) % kept.size()];
  if (slot.code == code) return slot;
  const PyGILState_STATE gil = PyGILState_Ensure();
  Py_INCREF(code);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) PyErr_Clear();
  const std::string_view path = file != nullptr ? file : "";
  slot = {code, file != nullptr,
          std::any_of(library_folders.begin(), library_folders.end(),
                      [&](const std::string& folder) { return path.starts_with(folder); })};
  PyGILState_Release(gil);
  return slot;
}

// The innermost line of the user's program, else of a library. The frames are those of this very thread, which is
// inside them: they cannot change, with or without the GIL.
runtime::Line current() {
  const PyThreadState* state = PyGILState_GetThisThreadState();
  if (state == nullptr || state->cframe == nullptr) return {};  // not a thread of Python's
  runtime::Line line;
  int depth = 0;
  for (const _PyInterpreterFrame* f = state->cframe->current_frame; f != nullptr && depth < 64; f = f->previous) {
    const Kept& kept = keep(f->f_code);
    if (!kept.named || (depth++ > 0 && kept.library)) continue;
    line = {f->f_code, static_cast<int32_t>(_PyInterpreterFrame_LASTI(f) * sizeof(_Py_CODEUNIT))};
    if (!kept.library) break;
  }
  return line;
}

// Needs no GIL, so it may be called under any lock: of a code object that was kept, these only read what never changes.
std::string describe(runtime::Line line) {
  auto* code = static_cast<PyCodeObject*>(const_cast<void*>(line.code));
  return std::string(PyUnicode_AsUTF8(code->co_filename)) + ":" +
         std::to_string(PyCode_Addr2Line(code, line.instruction));
}

}  // namespace

void register_lines() { runtime::set_line_source({&current, &describe}); }

void set_library_folders(std::vector<std::string> folders) { library_folders = std::move(folders); }

}  // namespace tpu::python
