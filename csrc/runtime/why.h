// Why a program is not the one before it: what differs between two requests, for people.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/program.h"

namespace tpu::runtime {

enum class Why : uint8_t {
  kFirst,       // nothing like it was made for its lines
  kDropped,     // the same, whose executable had left the memory
  kDimensions,  // sizes
  kDtype,
  kAttribute,  // a number or flag that is part of a program
  kPrecision,  // of float32 products
  kStructure,  // other operators, or they feed each other otherwise
  kResults,    // others of its results are held
  kDonation,   // it may take the memory of other inputs
};
std::string_view name_of(Why why);

// One place where two programs of the same operators differ, or the first where their operators do.
struct Change {
  enum Place : uint8_t { kNode, kOperand, kAttribute, kResult };
  Why why;
  Place place = kNode;
  uint32_t node = 0;   // may be the number of nodes, where a program ends earlier than the other
  int32_t index = -1;  // of the operand, attribute or result
  int32_t dim = -1;    // -1: the whole type
  bool operator==(const Change&) const = default;
};

struct Difference {
  Why why = Why::kFirst;
  std::vector<Change> changes;  // the causes: what only follows from them is left out
};

Difference compare(const Request& before, const Request& now);

// A node that only moves what an operator reads or writes.
bool is_view(const hlo::Call& call);

}  // namespace tpu::runtime
