// How a tensor's geometry (sizes, strides, offset) reads out of the dense value behind its storage, and how a write
// goes back. Found from strides alone, so it does not matter by which chain of views the geometry was made.
//
// One idea: the value's flat index is written in a mixed radix whose digits each hold at most one dimension of the
// tensor. Reshape to the digits, slice each digit, and what is left is the tensor up to order, steps within a digit and
// broadcasting. Where no such radix exists, flat indices are computed and gathered or scattered.
//
// Offsets are run-time operands: all offsets that fit one radix share one program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hlo/call.h"

namespace tpu::hlo {

constexpr int kMaxDigits = 24;

struct Geometry {
  std::span<const int64_t> sizes, strides;  // strides and offset in elements of the tensor's dtype
  int64_t offset = 0;
};

// A geometry over a value with its offset taken out.
struct ViewClass {
  const Type* base = nullptr;  // the value
  DType dtype{};               // of the tensor
  Dims sizes, strides;         // of the tensor
  bool gathers = false;        // no radix: flat indices
  bool overlaps = false;       // two indices name one element: reading is fine, writing is PyTorch's error
  bool covers = false;         // each element of the value exactly once: a write needs no old value
  bool identity = false;       // covers, in order: at most a reshape

  struct Digit {
    int64_t place, size;  // the digit is flat index / place % size
    int64_t dim = -1;     // the tensor's dimension in it, or -1 where one index is taken
    int64_t step = 1, count = 1;
    int64_t span() const { return (count - 1) * step + 1; }
    bool dynamic() const { return span() < size; }
  };
  std::vector<Digit> digits;  // outermost first

  const Call* read = nullptr;   // (value, starts...) -> tensor
  const Call* write = nullptr;  // (value, tensor, starts...) -> value; where it covers: tensor -> value
  int num_starts = 0;
  DType start_dtype = DType::kS32;
};

// The class of a geometry over a value of type `base` (interned; its bytes cover the geometry) seen as `dtype`, and the
// run-time starts of its offset: at most kMaxDigits are written. Cached; thread-safe; classes live forever.
const ViewClass* classify(const Type* base, DType dtype, const Geometry& geometry, int64_t* starts);

}  // namespace tpu::hlo
