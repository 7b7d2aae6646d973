// Cuts a long recording into pieces that repeat: layers of a model, forward and backward, and the steps of an optimizer
// over their weights. Each distinct piece is compiled once, however many layers there are, and what a piece does not
// hand on is freed when it ends.
//
// A function of the recording alone: never of time, of load or of what is compiled.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/recording.h"

namespace tpu::runtime {

// Recordings of fewer nodes stay whole.
constexpr size_t kSplitNodes = 64;

// Nodes of each piece. Pieces in this order, and the nodes of a piece in its order, are an order in which the recording
// can run: operands come before their readers, and nodes with an effect stay in line. One piece: it does not repeat.
std::vector<std::vector<uint32_t>> split(const Recording& recording);

}  // namespace tpu::runtime
