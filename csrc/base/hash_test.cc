#include "base/hash.h"

#include <doctest/doctest.h>

#include <unordered_set>

namespace tpu {

TEST_CASE("hash: the same in every process") {
  CHECK(hash_bytes("") == 0x2D06800538D394C2ull);  // xxh3 of nothing: keys on disk depend on it
  CHECK(hash_bytes("abc") == hash_bytes("abc"));
  CHECK(hash_bytes("abc") != hash_bytes("abd"));
  CHECK(hash_bytes("abc", 1) != hash_bytes("abc", 2));
}

TEST_CASE("hash: mix keeps order and small values apart") {
  CHECK(mix(mix(0, 1), 2) != mix(mix(0, 2), 1));
  std::unordered_set<uint64_t> seen;
  for (uint64_t h = 0; h < 100; ++h) {
    for (uint64_t v = 0; v < 100; ++v) seen.insert(mix(mix(0, h), v));
  }
  CHECK(seen.size() == 10000);
}

}  // namespace tpu
