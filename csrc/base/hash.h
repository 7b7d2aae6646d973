// 64-bit hashing that is the same in every process: used for in-memory tables and for cache keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tpu {

// One multiply-and-fold step: cheap enough for every node that is recorded.
inline uint64_t mix(uint64_t h, uint64_t v) {
  const __uint128_t p = static_cast<__uint128_t>(h ^ v ^ 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull;
  return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64) ^ (h << 1);
}

// xxh3 of bytes.
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);
inline uint64_t hash_bytes(std::string_view s, uint64_t seed = 0) { return hash_bytes(s.data(), s.size(), seed); }

}  // namespace tpu
