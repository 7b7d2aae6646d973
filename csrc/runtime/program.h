// A program: one region's work as an executable, and how to launch it on other values.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device.h"
#include "runtime/line.h"
#include "runtime/recording.h"
#include "runtime/residence.h"

namespace tpu::runtime {

struct Program : Request {
  Program() = default;
  explicit Program(Request request) : Request(std::move(request)) {}

  std::string name;                   // for people: its operator, or its first and last
  std::vector<uint32_t> inputs;       // region input behind each parameter
  std::vector<bool> donates;          // parameter is given up to an output (vetoed at a launch, it costs a copy)
  std::vector<uint32_t> scalars;      // region scalars in use; their words make the last parameter
  std::vector<uint32_t> word_offset;  // of every region scalar, in region words
  std::vector<const hlo::Type*> output_types;  // as `live`
  int64_t output_bytes = 0, temporary_bytes = 0;
  bool is_transpose = false;  // and nothing else, into memory of its own: see Device::transpose_options
  mutable Residence executable;
};

// StableHLO of a recording. Throws hlo::BuildError. Fills inputs, donates and scalars of `program`, whose request is
// set. `for_cpu`: for XLA's compiler for CPUs, which makes one rounding of a product and a sum that it fuses. In
// float64, where x / 3 * 3 - 1 is to be 0 in every mode, results of operators are then kept from fusing. `places`,
// where given, are the lines of Python ("a.py:12", or "") that the nodes stand for: they become locations, which the
// compiler carries through to its instructions.
std::string build(Program& program, bool for_cpu, std::span<const std::string> places = {});

// The lines of the nodes as text.
std::vector<std::string> places_of(const Recording& recording, std::span<const Line> lines);

// What people call the operator: "aten::add.Tensor"; a read or write of a view has a name of ours, "view.read".
std::string operator_name(const hlo::Call& call);

// What people call the program that makes `live`: its operator, or its first and last.
std::string name_of(const Recording& recording, std::span<const uint32_t> live);

// StableHLO of one operation alone. Throws hlo::BuildError.
std::string build_alone(const hlo::Call& call);

// Folds into a key what a program takes and leaves.
uint64_t with_ends(uint64_t key, std::span<const uint32_t> live, std::span<const uint32_t> given);

// Which nodes are needed for `live`.
std::vector<bool> needed(const Recording& recording, std::span<const uint32_t> live);

// The memory tier: finds the program of a recording, or builds and compiles it (once, though several threads ask; after
// a failure the next call tries again). Programs live until the process ends; their executables may be dropped.
Result<const Program*> program_for(Device& device, const Key& key, const Recording& recording,
                                   std::span<const uint32_t> live, std::span<const uint32_t> given,
                                   std::span<const Line> lines);

// The executable of a program from program_for(), for one launch: made again if it was dropped.
Result<Residence::Use> executable_of(Device& device, const Program& program);

// Sees every program that program_for() is asked for (known or not, with its nodes' lines; only its request is
// set), and every launch. Runs under a region's lock, so it must not wait for the GIL.
struct Watcher {
  void (*asked)(const Program& program, std::span<const Line> lines);
  void (*launched)(const Program& program, std::chrono::steady_clock::time_point start);
  // Nothing is compiled or launched: what programs would make is lost, which whoever reads it is told.
  bool dry = false;
};
// Null: nobody looks. `watcher` lives for ever. Returns the one before it.
const Watcher* set_watcher(const Watcher* watcher);
const Watcher* watcher();

}  // namespace tpu::runtime
