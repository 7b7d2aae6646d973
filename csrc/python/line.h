// The Python line of a node.
#pragma once

#include <string>
#include <vector>

namespace tpu::python {

// Gives the runtime its source of lines.
void register_lines();

// Lines of files below these folders (with a slash at the end) are not the user's: the line of their caller is taken.
// Called once, before anything runs.
void set_library_folders(std::vector<std::string> folders);

}  // namespace tpu::python
