// A graph of torch.compile: an operator that is made of the graph's calls.
#pragma once

#include <functional>

#include "aten/plan.h"

namespace tpu::aten {

class Graph {
 public:
  Graph();
  // Outputs of the graph on `tensors` (some may be undefined) and `sizes`. `run` makes them, by calling the graph's
  // operators, from tensors with the same elements; it is asked once for each kind of inputs.
  torch::jit::Stack operator()(std::vector<at::Tensor> tensors, const std::vector<int64_t>& sizes,
                               const std::function<torch::jit::Stack(std::vector<at::Tensor>)>& run) const;

 private:
  ops::Row row_;
  Overload overload_;
};

}  // namespace tpu::aten
