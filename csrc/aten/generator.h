// Random numbers: Philox by (seed, offset), both run-time operands. The offset moves when an op is recorded, so the
// same seed gives the same numbers in all modes.
#pragma once

#include <utility>

#include "aten/pch.h"

namespace tpu::aten {

// The default generator of the device.
const at::Generator& default_generator();
at::Generator make_generator();

// Takes `count` counters from a generator (null: the default): its seed, and the first counter.
std::pair<uint64_t, uint64_t> draw(at::GeneratorImpl* generator, uint64_t count);

}  // namespace tpu::aten
