// Hands a program and its operands to the device, on the calling thread.
#pragma once

#include <span>

#include "runtime/program.h"

namespace tpu::runtime {

struct Parameter {
  Value* value;  // ready or failed
  bool last;     // nobody reads it after this launch, so its memory may become an output's
};

// `parameters` as program.inputs, `words` as program.scalars, `outputs` deferred values as program.live. On success the
// outputs are ready, and parameters that were given up are empty. On an error nothing has changed.
Status launch(Device& device, const Program& program, std::span<const Parameter> parameters,
              std::span<const uint32_t> words, std::span<Value* const> outputs);

}  // namespace tpu::runtime
