// The steps of a plan while it is built: how operands are read out of the values of cells, and results written back.
#pragma once

#include <span>
#include <unordered_map>

#include "aten/plan.h"

namespace tpu::aten {

class StepBuilder {
 public:
  // Both must outlive this.
  StepBuilder(const Frame& frame, Plan& plan) : frame_(frame), plan_(plan) {}

  // Appends a step; returns the number of its first result.
  uint32_t step(const hlo::Call* call, std::span<const Source> sources);
  static Source result(uint32_t index) { return {Source::kStep, {}, index}; }

  // A tensor of the frame as it looks after the writes so far.
  Source read(uint32_t tensor);
  // The tensor's elements become `value`, whatever its geometry. Throws where elements share memory, unless
  // `all_equal`.
  void write(uint32_t tensor, Source value, bool all_equal);
  // The memory of a fresh tensor, filled through its strides.
  void fill(Output& out, Source value);

 private:
  Source contents(uint32_t tensor);
  Source zeros(const hlo::Type* type);
  void append_starts(const TensorArg& t, std::vector<Source>& to) const;

  const Frame& frame_;
  Plan& plan_;
  std::unordered_map<Cell*, Source> written_;  // cells that this plan has replaced so far
};

}  // namespace tpu::aten
