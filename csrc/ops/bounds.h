// Index bounds. XLA never raises: a read from outside comes from the nearest element within, a write to outside is
// dropped. Strict and DeferAndFuse leave it there. Debug mode runs a row's check beside the op and raises IndexError.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// What a check returns: int64[3] {whether an index lies outside [low, size), the first such index, size}.
Value bounds(Builder& b, Value index, int64_t size, int64_t low = 0);
// The same where indices from the end may be negative.
inline Value bounds_wrapping(Builder& b, Value index, int64_t size) { return bounds(b, index, size, -size); }

// The first check that fails.
Value first_failed(Builder& b, Value check, Value next);
// No index.
Value passes(Builder& b);

}  // namespace tpu::ops
