#include "python/interrupt.h"

#include <Python.h>

#undef HAVE_STD_ATOMIC  // which is C's; the compiler's own have the same layout
#define Py_BUILD_CORE
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

namespace tpu::python {

// PyErr_CheckSignals would run the handler, and needs the GIL, which a thread that waits for our locks may have.
bool interrupted() {
  return PyThread_get_thread_ident() == _PyRuntime.main_thread &&
         _Py_atomic_load(&_PyRuntime.ceval.signals_pending) != 0;
}

}  // namespace tpu::python
