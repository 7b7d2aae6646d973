// Which line of Python recorded a node: cheap to take, text only when asked for.
#pragma once

#include <cstdint>
#include <string>

namespace tpu::runtime {

struct Line {
  const void* code = nullptr;  // a code object that lives forever, or null
  int32_t instruction = 0;     // byte offset in it
};

// Set by the Python layer; both may be called from any thread.
struct LineSource {
  Line (*current)() = nullptr;  // may take the GIL, so not under a lock that a thread with the GIL waits for
  std::string (*describe)(Line) = nullptr;  // takes no lock
};
void set_line_source(LineSource source);
Line current_line();
// "file.py:12", or "" where it is not known.
std::string describe(Line line);

}  // namespace tpu::runtime
