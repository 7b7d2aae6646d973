// Launches a recording node by node, each as a program of its own, which other recordings share: for those that are not
// worth a program (novelty.h).
#pragma once

#include <cstdint>
#include <span>

#include "runtime/schedule.h"

namespace tpu::runtime {

// What `live` (ascending) and effects need. References are dropped, and null, as soon as nothing reads the value any
// more. After an error some results are ready, and the others wait for it.
Status launch_one_by_one(Device& device, const Recording& recording, std::span<const uint32_t> live, Holdings held);

}  // namespace tpu::runtime
