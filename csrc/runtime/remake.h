// What a piece makes again rather than have it kept since an earlier one. A forward pass leaves tensors to its backward
// pass; of those that follow quickly from others which are kept anyway (GELU of its input, a normalized tensor of what
// was normalized), only the others need to live that long.
//
// A function of the recording and its pieces alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/recording.h"

namespace tpu::runtime {

// Whether somebody else than the region has a reference to an input or result; `live` and `given` as in a Request.
bool is_held(Ref ref, std::span<const uint32_t> live, std::span<const uint32_t> given);

// By piece, ascending: results of the recording that it reads, and makes again from what else it can have. `pieces` are
// the nodes of each, in an order in which they can run.
std::vector<std::vector<uint32_t>> to_make_again(const Recording& recording,
                                                 std::span<const std::vector<uint32_t>> pieces,
                                                 std::span<const uint32_t> live, std::span<const uint32_t> given);

// Hands its operand on, and lets the compiler see nothing of where it comes from.
const hlo::Call* fence(const hlo::Type* type);

}  // namespace tpu::runtime
