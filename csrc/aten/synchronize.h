// Waiting for the device.
#pragma once

namespace tpu::aten {

// Cuts all regions and waits until every value has its content. Throws the first error of a launch.
void synchronize();
// Whether nothing that was launched is still running.
bool idle();

}  // namespace tpu::aten
