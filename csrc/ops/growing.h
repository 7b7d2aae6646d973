// How a row works on operands with padding (hlo/padding.h): of which sizes its results then are, and what has to stand
// in the padding of what it looks at.
#pragma once

#include <span>

#include "hlo/padding.h"
#include "ops/row.h"

namespace tpu::ops {

struct Growth {
  const Call& call;                 // with the sizes that are meant
  std::vector<Dims> operands = {};  // of the tensors as they are; a policy may ask for more where one is expanded
  std::vector<Dims> results = {};   // to be filled in, one per result
  struct Mask {
    hlo::Fill fill = hlo::Fill::kAny;
    Dims dims;
  };
  std::vector<Mask> masks = {};  // of operands
  // An optional tensor that the call lacks: zeros, and `fill` behind `size` of them. Operand and attribute `at`.
  struct Added {
    size_t at = 0;
    DType dtype{};
    int64_t size = 0, room = 0;  // none: not wanted
    hlo::Fill fill = hlo::Fill::kAny;
  } added = {};
  bool rounds = false;  // to be set where sums of floats are taken in another order than without padding

  bool padded(size_t operand, int64_t dim) const {
    const auto d = static_cast<size_t>(dim);
    return operands[operand][d] != call.operands[operand]->dims[d];
  }
  // `dim` of `operand` shall hold `fill` behind its size, if it is padded.
  void mask(size_t operand, int64_t dim, hlo::Fill fill) {
    if (!padded(operand, dim)) return;
    masks[operand].fill = fill;
    masks[operand].dims.push_back(dim);
  }
};

// Operands are broadcast to each other.
bool grows_pointwise(Growth& g);

// The dims in attribute 1 (or all) of operand 0 are reduced.
enum class Reducing { kSum, kProduct, kMean, kMax, kMin, kAll, kAny, kCount, kArgMax, kArgMin };
bool grows_reducing(Growth& g, Reducing how);
template <Reducing how>
bool grows_reduction(Growth& g) {
  return grows_reducing(g, how);
}

// Operands of one shape, of which the dim in attribute `at` is taken as a whole.
template <size_t at>
bool grows_along(Growth& g);

// Operands `x` and `x + 1` are multiplied as matrices, with any dims in front; those before them are added.
template <size_t x>
bool grows_product(Growth& g);

// Queries, keys, values and perhaps what is added to scores, in front.
bool grows_attention(Growth& g);

}  // namespace tpu::ops
