// TORCH_TPU_DUMP: programs as files, for people.
#pragma once

#include <span>
#include <string>

#include "runtime/program.h"

namespace tpu::runtime {

// Where the programs go that are compiled from now on; empty: nowhere.
std::string dump_directory();

// Writes a program as NUMBER-NAME.mlir, with the operators and lines that its operations stand for. Returns the folder
// beside it, NUMBER-NAME, for what its compiler has to say; or why nothing could be written.
Result<std::string> dump(const std::string& directory, const Program& program, bool for_cpu,
                         std::span<const Line> lines);

}  // namespace tpu::runtime
