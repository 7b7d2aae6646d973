// Tensors that grow in a loop keep values with padding, so that one program serves many sizes: docs/architecture.md.
// Where the padding begins, and which calls work on it; all others read a padded value as a view of it.
#pragma once

#include <optional>
#include <span>

#include "aten/plan_steps.h"

namespace tpu::aten {

enum class Dynamism : uint8_t {
  kOff,   // nothing is padded, and what is padded is read without its padding
  kAuto,  // where the result has the same bits as without
  kAll,   // also where sums of floats are taken in another order
};
// Of the calling thread.
Dynamism dynamism();
void set_dynamism(Dynamism level);

// Where the elements of a tensor stand in the padded value of its cell. False where not in even steps.
bool place(const at::TensorImpl& impl, const Cell& cell, hlo::Dims& strides, int64_t& offset);

// A tensor over a padded value as a view of that: false where it is none. Its starts go to the frame.
bool read_padded(const at::TensorImpl& impl, const Cell& cell, Frame& frame, TensorArg& arg);

// What the plan of a call that joins tensors depends on beside them.
void read_growth(Frame& frame);

// An operand of a call that is a tensor of the frame.
struct Reading {
  size_t operand;
  uint32_t tensor;
};

struct GrowingCall {
  const ops::Row& row;
  const Frame& frame;
  std::span<const Reading> readings;
  std::span<const Output* const> fresh;  // of the results, in front
  std::span<const uint32_t> targets;     // of the others
  std::optional<uint32_t> like = {};     // a tensor of which only the sizes matter
};

// Turns the call, whose tensors are not read yet, into one on padded values, with the steps that read them. False, and
// nothing is changed, where it is none.
bool grow(const GrowingCall& what, hlo::Call& call, std::vector<Source>& sources, StepBuilder& steps, Plan& plan);

}  // namespace tpu::aten
