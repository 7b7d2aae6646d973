#include "runtime/repeats.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/hash.h"

using tpu::mix;
using tpu::runtime::Repeats;

namespace {

// Feeds a stream, settles on what is found as a region would, and returns where it was cut.
std::vector<size_t> cuts(const std::vector<uint64_t>& stream) {
  Repeats repeats;
  std::vector<size_t> found;
  for (size_t i = 0; i < stream.size(); ++i) {
    repeats.add(stream[i]);
    while (repeats.suspects()) {
      auto* const suspect = repeats.suspect();
      if (suspect == nullptr) break;
      const size_t held = i + 1 - (found.empty() ? 0 : found.back());
      if (held < 2 * suspect->period) {
        suspect->look_again_after(2 * suspect->period - held);
      } else {
        repeats.settle(*suspect, suspect->run);
      }
    }
    while (repeats.at_boundary()) {
      found.push_back(i + 1 - repeats.behind());
      repeats.passed();
    }
  }
  return found;
}

std::vector<uint64_t> step(size_t nodes, uint64_t seed = 0) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < nodes; ++i) keys.push_back(mix(seed, i));
  return keys;
}

std::vector<uint64_t> repeat(const std::vector<uint64_t>& part, size_t times) {
  std::vector<uint64_t> all;
  for (size_t i = 0; i < times; ++i) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("a step that repeats is cut a step at a time, and at one place of it") {
  const auto found = cuts(repeat(step(300), 6));
  REQUIRE(found.size() >= 4);
  for (size_t i = 1; i < found.size(); ++i) CHECK(found[i] - found[i - 1] == 300);
}

TEST_CASE("short periods are taken together") {
  const auto found = cuts(repeat(step(3), 600));
  REQUIRE(found.size() > 4);
  for (size_t i = 1; i < found.size(); ++i) CHECK(found[i] - found[i - 1] == 258);
}

TEST_CASE("what came before does not matter") {
  auto stream = step(777, 99);
  const auto body = repeat(step(40), 40);
  stream.insert(stream.end(), body.begin(), body.end());
  const auto found = cuts(stream);
  REQUIRE(found.size() > 10);
  for (size_t i = 1; i < found.size(); ++i) CHECK(found[i] - found[i - 1] == 40);
}

TEST_CASE("too few repetitions, or none, are not cut") {
  CHECK(cuts(repeat(step(20), 6)).empty());
  CHECK(cuts(step(20000)).empty());
  std::vector<uint64_t> random;
  std::mt19937_64 draw(1);
  for (int i = 0; i < 20000; ++i) random.push_back(draw() % 50);
  CHECK(cuts(random).empty());
}

TEST_CASE("a stream that stops repeating is found again when it goes on") {
  auto stream = repeat(step(50), 10);
  const auto other = step(70, 5);
  stream.insert(stream.end(), other.begin(), other.end());
  const auto again = repeat(step(50), 10);
  stream.insert(stream.end(), again.begin(), again.end());
  const auto found = cuts(stream);
  CHECK(std::count_if(found.begin(), found.end(), [](size_t at) { return at <= 500; }) >= 5);
  CHECK(std::count_if(found.begin(), found.end(), [](size_t at) { return at > 570; }) >= 5);
}

TEST_CASE("a restart forgets") {
  Repeats repeats;
  for (int i = 0; i < 10; ++i) {
    for (const uint64_t key : step(50)) {
      repeats.add(key);
      CHECK(!repeats.suspects());
    }
    repeats.restart();
  }
}

TEST_CASE("a loop that is run again is found by its step, not by its whole") {
  auto once = step(9, 5);
  const auto body = repeat(step(50), 20);
  once.insert(once.end(), body.begin(), body.end());
  const auto found = cuts(repeat(once, 4));
  CHECK(std::count_if(found.begin(), found.end(), [](size_t at) { return at <= 1009; }) >= 15);
  CHECK(std::count_if(found.begin(), found.end(), [](size_t at) { return at > 3027; }) >= 15);
}
