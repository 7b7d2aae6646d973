// The Python line of a node.
#pragma once

namespace tpu::python {

// Gives the runtime its source of lines.
void register_lines();

}  // namespace tpu::python
