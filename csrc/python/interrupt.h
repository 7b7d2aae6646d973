// Signals that Python has not looked at yet.
#pragma once

namespace tpu::python {

// Whether a signal waits for the calling thread to return to the interpreter. Needs no GIL.
bool interrupted();

}  // namespace tpu::python
