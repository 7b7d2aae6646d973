#include "runtime/line.h"

namespace tpu::runtime {
namespace {
LineSource source;
}

void set_line_source(LineSource s) { source = s; }
Line current_line() { return source.current != nullptr ? source.current() : Line{}; }
std::string describe(Line line) {
  return line.code != nullptr && source.describe != nullptr ? source.describe(line) : std::string();
}

}  // namespace tpu::runtime
