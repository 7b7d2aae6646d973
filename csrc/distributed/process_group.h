// The c10d backend "tpu_dist".
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace tpu::distributed {

// A process group over `host`, a backend for CPU tensors with the same ranks.
c10::intrusive_ptr<c10d::Backend> make_process_group(c10::intrusive_ptr<c10d::Backend> host);

// Declares the operators tpu_dist::*, once, before the op table is registered.
void declare_operators();

}  // namespace tpu::distributed
