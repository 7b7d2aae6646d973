// A Frame is one call of an operator, read off the stack once: its tensors and run-time numbers, and the words of its
// signature. Two calls with equal words run the same plan.
#pragma once

#include <c10/util/SmallVector.h>

#include "aten/cell.h"
#include "base/hash.h"
#include "hlo/view.h"
#include "ops/row.h"

namespace tpu::aten {

struct TensorArg {
  at::TensorImpl* impl;
  Cell* cell;
  const hlo::ViewClass* view;  // null: the tensor is its value, element for element
  uint32_t first_start;        // in Frame::starts
  // Over a value with padding: the tensor's type with the padding that it shows, and how that reads out of the value.
  const hlo::Type* physical = nullptr;    // null: without padding, by `view`
  const hlo::ViewClass* whole = nullptr;  // null: the value is it
  uint32_t first_whole_start = 0;
  // Where Frame::crops: the tensor over the value without its padding. Null here too: that value is it.
  const hlo::ViewClass* cropped = nullptr;
  uint32_t first_cropped_start = 0;
};

struct NumberArg {
  enum Kind : uint8_t { kInt, kFloat, kComplex } kind = kInt;
  int64_t i = 0;
  double re = 0, im = 0;
  // Bits of the number in the dtype in which it travels, low word first.
  std::pair<uint64_t, uint64_t> bits(DType travels_as) const;
  // 0, 1 and -1 are part of the program.
  bool is_identity() const {
    if (kind == kInt) return i >= -1 && i <= 1;
    return kind == kFloat && ((re == 0 && !std::signbit(re)) || re == 1 || re == -1);
  }
  static NumberArg of(const at::Scalar& s);
};

// How one argument of an overload is read.
struct ArgSpec {
  ops::Arg kind;
  bool written;
  bool list;         // of tensors
  int16_t position;  // in the functional schema, or -1 for an out= argument
};

// Finds a tensor's cell and value among those of the tensors before it.
class SeenTensors {
 public:
  // Numbers, counted from 1, of the first of `tensors` with the same cell and with the same value; 0 for none.
  std::pair<uint64_t, uint64_t> add(const Cell* cell, const runtime::Value* value,
                                    const c10::SmallVectorImpl<TensorArg>& tensors);

 private:
  uint64_t first(const void* what, uint64_t number);
  std::vector<std::pair<const void*, uint64_t>> slots_;  // open addressing; empty while there are few
};

struct Frame {
  c10::SmallVector<uint64_t, 48> words;
  c10::SmallVector<TensorArg, 8> tensors;
  c10::SmallVector<NumberArg, 8> numbers;
  c10::SmallVector<int64_t, 16> starts;
  SeenTensors seen;
  std::vector<at::Tensor> uploaded;  // CPU index tensors, brought over
  std::vector<at::Tensor> resolved;  // what conjugate and negative views show, where PyTorch leaves these to us
  at::GeneratorImpl* generator = nullptr;
  bool grows = false;  // a join may begin to pad: growth.h
  bool crops = false;  // values with padding are read as if they had none, in a program apart: what rounds has to
                       // find what it finds without padding
  bool stale = false;  // a value was replaced after it had been read
  bool debug() const;
  hlo::Precision precision() const;  // of products of float32
  uint64_t hash() const {
    uint64_t h = 0;
    for (const uint64_t w : words) h = mix(h, w);
    return h;
  }
};

struct Overload;

// Throws where a tensor is on another device. Tensors of the stack must outlive the frame.
void read_frame(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, Frame& frame);

// Appends what the tensor is to `frame`.
void read_tensor(at::TensorImpl& impl, Frame& frame);

}  // namespace tpu::aten
