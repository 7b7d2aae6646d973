// The launches that make up one region: one program, or a piece after the other where it is long and repeats itself.
// Found once for a request; a region that is like one before is launched from it without being looked at again.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "runtime/line.h"
#include "runtime/program.h"
#include "runtime/value.h"

namespace tpu::runtime {

struct Piece {
  Request request;
  // Where its inputs, scalars and results stand in the region's recording.
  std::vector<Ref> inputs;
  std::vector<uint32_t> scalars, outputs;
  std::vector<uint32_t> nodes, makers;  // all, and that of each output
  std::vector<Ref>
      last;  // inputs that nothing reads after it: their memory may go, as far as the region holds them alone
  mutable std::atomic<const Program*> program{nullptr};
};

struct Schedule : Request {
  explicit Schedule(Request request);
  std::vector<std::unique_ptr<Piece>> pieces;  // empty: one program does it all
  std::vector<uint32_t> word_offset;           // of every scalar, in the region's words
};

// For a recording of at least kSplitNodes nodes. Lives until the process ends.
const Schedule& schedule_for(const Key& key, const Recording& recording, std::span<const uint32_t> live,
                             std::span<const uint32_t> given);

// What a region holds at its cut: a reference to each input, and to each result that somebody asked for.
struct Holdings {
  const std::vector<Line>& lines;
  const std::vector<uint32_t>& words;
  std::vector<Value*>& inputs;
  std::vector<Value*>& results;

  Value*& slot(Ref ref) const { return (ref.kind() == Ref::kInput ? inputs : results)[ref.index()]; }
  // The value that result `r` of node `node` goes to, made where nobody asked for one.
  Value* promised(uint32_t r, const hlo::Type* type, uint32_t node) const;
  // Appends scalar `scalar` of `recording`, whose words begin at `offset`.
  void append_words(const Recording& recording, uint32_t scalar, uint32_t offset, std::vector<uint32_t>& out) const;
};

// Launches all pieces. References are dropped, and null, as soon as nothing reads the value any more. After an error
// some results are ready, and the others wait for it.
Status launch(Device& device, const Schedule& schedule, Holdings held);

}  // namespace tpu::runtime
