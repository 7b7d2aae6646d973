// The process groups of this process, by number: how a program names the one that it talks to. A number depends on the
// order in which this process made its groups, so programs of different ranks are equal where their groups play the
// same part.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace tpu::distributed {

// Gives the group whose messages `host` carries (a backend for CPU tensors) the least free number. Raises where the
// plugin's programs cannot call this process.
int64_t add_group(c10::intrusive_ptr<c10d::Backend> host);
// Frees the number. Programs that name it must have run.
void remove_group(int64_t number) noexcept;

}  // namespace tpu::distributed
