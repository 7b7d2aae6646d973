// A plan that is launched as soon as it is recorded, in Strict and Debug mode. Its programs are found once and kept in
// the plan, so that a later call looks nothing up.
#pragma once

#include "aten/plan_run.h"
#include "runtime/program.h"

namespace tpu::aten {

struct StandAlone {
  struct Launch {
    const runtime::Program* program;
    std::vector<uint32_t> parameters;  // tensor behind each
    std::vector<Source> words;         // numbers behind the packed words
    std::vector<uint32_t> outputs;     // plan result behind each
  };
  std::vector<Launch> launches;  // one, but for lists of tensors of few kinds
};

// Fills values[r] for each result that escapes. On an error, those are filled whose launch had succeeded: the memory
// that they took is gone.
Status launch_alone(const Run& run, Values& values);

}  // namespace tpu::aten
