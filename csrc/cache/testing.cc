#include "cache/testing.h"

#include <unistd.h>

#include <cstdlib>

#include "base/hash.h"

namespace tpu::cache {
namespace {

long told(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

long key_bits() {
  static const long bits = told("TORCH_TPU_TEST_KEY_BITS", 64);
  return bits;
}

}  // namespace

uint64_t truncated(uint64_t key) { return key_bits() < 64 ? key & ((uint64_t{1} << key_bits()) - 1) : key; }

Fingerprint truncated(const Fingerprint& key) {
  if (key_bits() >= 64) return key;
  return {truncated(mix(mix(key.structure, key.dimensions), key.options)), 0, 0};
}

void delay_for_tests() {
  static const long delay = told("TORCH_TPU_TEST_CACHE_DELAY", 0);
  if (delay > 0) usleep(static_cast<useconds_t>(delay * 1000));
}

}  // namespace tpu::cache
