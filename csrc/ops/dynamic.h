// Parts of operators whose results have sizes that depend on data. Each computes at the largest size there can be and
// gives the size beside; what lies behind it is unspecified.
#pragma once

#include "hlo/call.h"

namespace tpu::ops {

// How many elements of `mask` are set, and their places in order, [mask.numel()], filled up with `fill`.
struct Compacted {
  hlo::Value count, places;
};
Compacted compacted(hlo::Builder& b, hlo::Value mask, int64_t fill = 0);
// The coordinates [places, dims.size()] (s64) of flat places.
hlo::Value coordinates(hlo::Builder& b, hlo::Value places, const hlo::Dims& dims);

// mask -> count
hlo::Values emit_count(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
// x -> count, coordinates [numel, rank]
hlo::Values emit_nonzero(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
// x [mask's dims..., rest...], mask -> count, the slices of x where mask is set
hlo::Values emit_masked(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
// x [n, ...] -> count, distinct slices, which of them each slice of x is, how often each comes. Attributes: whether
// equal ones come together already.
hlo::Values emit_unique(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
// x [n] -> s64[2] {the least, the sum} and {the least, the greatest}
hlo::Values emit_least_and_sum(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
hlo::Values emit_least_and_most(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
// repeats [n] -> 0 repeats[0] times, 1 repeats[1] times, ...
hlo::Values emit_repeated(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);
// x [n], perhaps weights [n] -> how often, or with which weight, each number from 0 on comes
hlo::Values emit_bincount(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands);

}  // namespace tpu::ops
