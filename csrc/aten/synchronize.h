// Waiting for the device.
#pragma once

#include <cstdint>

namespace tpu::aten {

// Cuts all regions and waits until every value has its content. Throws the first error of a launch.
void synchronize();
// Whether nothing that was launched is still running.
bool idle();
// Milliseconds between two events, by their event_id (0: not recorded). Both must take the time.
double elapsed_time(uint64_t from, uint64_t to);

}  // namespace tpu::aten
