// What tests ask of the cache, by environment variables that are read once.
#pragma once

#include <cstdint>

#include "cache/fingerprint.h"

namespace tpu::cache {

// TORCH_TPU_TEST_KEY_BITS=4 leaves four bits of every key, so that different programs have equal ones.
uint64_t truncated(uint64_t key);
Fingerprint truncated(const Fingerprint& key);

// TORCH_TPU_TEST_CACHE_DELAY=100: milliseconds that reading or writing an entry takes at least.
void delay_for_tests();

}  // namespace tpu::cache
