// A program: one region's work as an executable, and how to launch it on other values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/region.h"

namespace tpu::runtime {

struct Key {
  uint64_t structure = 0, dimensions = 0;
  bool operator==(const Key&) const = default;
};

struct Program {
  Key key;
  std::string name;             // for people: its operator, or its first and last
  Recording recording;          // compared on every hit
  std::vector<uint32_t> live;   // results that are outputs, in order
  std::vector<uint32_t> given;  // inputs whose memory the outputs may take, ascending

  std::vector<uint32_t> inputs;       // region input behind each parameter
  std::vector<bool> donates;          // parameter is given up to an output (vetoed at a launch, it costs a copy)
  std::vector<uint32_t> scalars;      // region scalars in use; their words make the last parameter
  std::vector<uint32_t> word_offset;  // of every region scalar, in region words
  std::vector<const hlo::Type*> output_types;  // as `live`
  int64_t output_bytes = 0, temporary_bytes = 0;
  std::unique_ptr<pjrt::Executable> executable;
};

// StableHLO of a recording. Throws hlo::BuildError. Fills inputs, donates and scalars of `program`, whose key,
// recording, live and given are set. `contracts`: the compiler makes one rounding of a product and a sum that it fuses,
// as those for CPUs do. In float64, where x / 3 * 3 - 1 is to be 0 in every mode, results of operators are then kept
// from fusing.
std::string build(Program& program, bool contracts);

// Which nodes are needed for `live`.
std::vector<bool> needed(const Recording& recording, std::span<const uint32_t> live);

// The memory tier: finds the program of a recording, or builds and compiles it (once, though several threads ask; after
// a failure the next call tries again). Programs live until the process ends.
Result<const Program*> program_for(Device& device, const Key& key, const Recording& recording,
                                   std::span<const uint32_t> live, std::span<const uint32_t> given,
                                   std::span<const Line> lines);

}  // namespace tpu::runtime
