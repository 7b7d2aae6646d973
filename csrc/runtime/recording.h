// What a program is made from: nodes in the order in which they were recorded. Operands are numbers, never pointers, so
// a recording is its own canonical form; its key is folded as nodes come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "hlo/call.h"

namespace tpu::runtime {

// Where an operand comes from: two bits of kind, thirty of index.
class Ref {
 public:
  enum Kind : uint32_t { kResult, kInput, kScalar };
  Ref() = default;
  Ref(Kind kind, uint32_t index) : bits_(kind << 30 | index) {}
  Kind kind() const { return static_cast<Kind>(bits_ >> 30); }
  uint32_t index() const { return bits_ & 0x3fffffff; }
  uint32_t bits() const { return bits_; }
  bool operator==(const Ref&) const = default;

 private:
  uint32_t bits_ = 0;
};

// How a rank-0 operand of a dtype travels in the packed words of a launch: bytes, and as which dtype.
DType word_dtype(DType dtype);

// Those words. The upper one of 64 bits comes first: Words of program_build.cc says why.
class ScalarWords {
 public:
  ScalarWords(DType travels_as, uint64_t low, uint64_t high)
      : words_{upper(low), lower(low), upper(high), lower(high)}, count_(size_of(travels_as) / 4) {}
  std::span<const uint32_t> span() const { return std::span(words_).subspan(count_ == 1 ? 1 : 0, count_); }

 private:
  static uint32_t upper(uint64_t bits) { return static_cast<uint32_t>(bits >> 32); }
  static uint32_t lower(uint64_t bits) { return static_cast<uint32_t>(bits); }

  uint32_t words_[4];
  size_t count_;
};

struct Node {
  const hlo::Call* call;
  uint32_t first_operand, first_result;
  bool operator==(const Node&) const = default;
};

struct Recording {  // equal recordings make equal programs
  std::vector<Node> nodes;
  std::vector<Ref> operands;
  uint32_t num_results = 0;
  std::vector<const hlo::Type*> inputs;
  std::vector<DType> scalars;  // dtypes as they travel
  bool operator==(const Recording&) const = default;

  std::span<const Ref> operands_of(const Node& node) const {
    return {operands.data() + node.first_operand, node.call->operands.size()};
  }
};

// The node that makes a result.
inline size_t maker(const Recording& recording, uint32_t result) {
  const auto after = std::upper_bound(recording.nodes.begin(), recording.nodes.end(), result,
                                      [](uint32_t r, const Node& node) { return r < node.first_result; });
  return static_cast<size_t>(after - recording.nodes.begin()) - 1;
}

// Where the words of each scalar begin among those of all.
inline std::vector<uint32_t> word_offsets(const Recording& recording) {
  std::vector<uint32_t> offsets;
  uint32_t next = 0;
  for (const DType scalar : recording.scalars) {
    offsets.push_back(next);
    next += static_cast<uint32_t>(size_of(scalar) / 4);
  }
  return offsets;
}

struct Key {
  uint64_t structure = 0, dimensions = 0;
  bool operator==(const Key&) const = default;
};

// Appends a node and folds it into the key. Returns the number of its first result.
inline uint32_t append(Recording& to, Key& key, const hlo::Call* call, std::span<const Ref> operands) {
  const uint32_t first = to.num_results;
  to.nodes.push_back({call, static_cast<uint32_t>(to.operands.size()), first});
  key.structure = mix(key.structure, call->structure_key);
  key.dimensions = mix(key.dimensions, call->dimensions_key);
  for (const Ref ref : operands) {
    to.operands.push_back(ref);
    key.structure = mix(key.structure, ref.bits());
  }
  to.num_results += static_cast<uint32_t>(call->results.size());
  return first;
}

struct Request {  // what a program is asked for with
  Key key;
  Recording recording;          // compared on every hit
  std::vector<uint32_t> live;   // results that are outputs, ascending
  std::vector<uint32_t> given;  // inputs whose memory the outputs may take, ascending
  bool operator==(const Request&) const = default;
};

}  // namespace tpu::runtime
