// A log of the executables that were made last, each with the program that is most like it: what tells why one was
// compiled once more. Kept at each miss and at nothing else, in a time that is small against a compile.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/fingerprint.h"
#include "cache/store.h"
#include "runtime/line.h"
#include "runtime/why.h"

namespace tpu::runtime {

// Lines of nodes, where many have the same.
class Lines {
 public:
  Lines() = default;
  explicit Lines(std::span<const Line> lines);
  Line at(size_t node) const;
  Line first() const { return runs_.empty() ? Line{} : runs_.front().line; }
  Line last() const { return runs_.empty() ? Line{} : runs_.back().line; }

 private:
  struct Run {
    uint32_t node;
    Line line;
  };
  std::vector<Run> runs_;
};

struct Made {
  // Filled in by who makes it.
  const Program* program = nullptr;  // lives for ever
  cache::Fingerprint key;
  cache::Tier from = cache::Tier::kCompiled;
  std::chrono::steady_clock::time_point start;
  int64_t ns = 0, temporary_bytes = 0;
  bool again = false;  // its executable had been dropped
  Lines lines;         // not where it is made again: those of the first time are taken

  // By note_made().
  int64_t number = 0;
  int64_t thread = 0;               // as the system counts them
  const Request* before = nullptr;  // what it is most like; null: nothing
  Difference difference;            // from that
  int64_t versions = 1;             // so far, that differ in the same place
};

// Compiles from one line, each a version of the same operators that differs from another one in the same place.
struct Storm {
  int64_t versions = 0, ns = 0;
  Made last;
};

// After how many versions compiles from a line are a storm. Of a single operator a deep network has tens of sizes, all
// compiled in its first pass and never again: ResNet-50 has 12 of a batch norm, 25 of a convolution. A fused program of
// many operators is a layer or a step, whose sizes a network has few of, and it takes the longest to compile.
constexpr int64_t kStormOfOne = 32, kStormOfMany = 8;
constexpr size_t kManyNodes = 16;

constexpr size_t kMadeKept = 16384;
void note_made(Made made);
// Oldest first, from a number on.
std::vector<Made> made_since(int64_t number);
// How many were made since the process began: the number of the next one.
int64_t made_count();
// In the order in which they began.
std::vector<Storm> storms();
size_t storm_count();

// Called after each note_made(), in the thread that made it, perhaps under a region's lock: it must not wait for the
// GIL. `storm`: it made one of its line.
void set_made_hook(void (*hook)(bool storm));

}  // namespace tpu::runtime
