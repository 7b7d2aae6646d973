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
  // The same with padding: as `sizes`, which are those of its physical type, or larger where it is expanded.
  bool can_read_as(uint32_t tensor, const hlo::Dims& sizes) const;
  Source read_as(uint32_t tensor, const hlo::Dims& sizes);
  // The tensor's elements become `value`, whatever its geometry. Throws where elements share memory, unless
  // `all_equal`.
  void write(uint32_t tensor, Source value, bool all_equal);
  // The same of a value with the padding of the tensor's physical type.
  void write_whole(uint32_t tensor, Source value);
  // The memory of a fresh tensor, filled through its strides. `sizes` of the value: those of the tensor, or with
  // padding.
  void fill(Output& out, Source value, const hlo::Dims& sizes);

 private:
  Source contents(uint32_t tensor);
  // By a view of the cell's value, whose starts begin at `first` in the frame. Null: the value is it.
  Source read_through(const hlo::ViewClass& view, uint32_t first, Source whole);
  void write_through(const hlo::ViewClass* view, uint32_t first, uint32_t tensor, Source value, bool all_equal);
  Source zeros(const hlo::Type* type);
  static void append_starts(const hlo::ViewClass& view, uint32_t first, std::vector<Source>& to);
  const hlo::ViewClass* stretched(const TensorArg& t, const hlo::Dims& sizes) const;

  const Frame& frame_;
  Plan& plan_;
  std::unordered_map<Cell*, Source> written_;  // cells that this plan has replaced so far
};

}  // namespace tpu::aten
