#include "aten/plan_steps.h"

#include <ATen/MemoryOverlap.h>

#include "aten/dtype.h"
#include "hlo/view_emit.h"

namespace tpu::aten {

uint32_t StepBuilder::step(const hlo::Call* call, std::span<const Source> sources) {
  TORCH_INTERNAL_ASSERT(call->operands.size() == sources.size());
  const uint32_t first = plan_.num_results;
  plan_.steps.push_back({call, static_cast<uint32_t>(plan_.sources.size()), first});
  plan_.sources.insert(plan_.sources.end(), sources.begin(), sources.end());
  plan_.num_results += static_cast<uint32_t>(call->results.size());
  return first;
}

Source StepBuilder::zeros(const hlo::Type* type) { return result(step(hlo::undefined(type), {})); }

Source StepBuilder::contents(uint32_t tensor) {
  const TensorArg& t = frame_.tensors[tensor];
  if (const auto found = written_.find(t.cell); found != written_.end()) return found->second;
  if (t.cell->value) return {Source::kTensor, {}, tensor};
  return zeros(t.cell->type);
}

void StepBuilder::append_starts(const TensorArg& t, std::vector<Source>& to) const {
  for (int i = 0; i < t.view->num_starts; ++i) {
    to.push_back({Source::kStart, t.view->start_dtype, t.first_start + static_cast<uint32_t>(i)});
  }
}

Source StepBuilder::read(uint32_t tensor) {
  const TensorArg& t = frame_.tensors[tensor];
  if (t.view == nullptr) return contents(tensor);
  std::vector<Source> sources{contents(tensor)};
  append_starts(t, sources);
  return result(step(t.view->read, sources));
}

void StepBuilder::write(uint32_t tensor, Source value, bool all_equal) {
  const TensorArg& t = frame_.tensors[tensor];
  if (t.view != nullptr) {
    if (t.view->overlaps && !all_equal) at::assert_no_internal_overlap(t.impl);
    std::vector<Source> sources{value};
    if (!t.view->covers) {
      sources.insert(sources.begin(), contents(tensor));
      append_starts(t, sources);
    }
    value = result(step(t.view->write, sources));
  }
  written_.insert_or_assign(t.cell, value);
  plan_.effects.push_back({tensor, value});
}

void StepBuilder::fill(Output& out, Source value) {
  out.source = value;
  if (out.type->dims == out.sizes && out.contiguous) return;
  int64_t starts[hlo::kMaxDigits];
  const hlo::ViewClass* view = hlo::classify(out.type, to_dtype(out.dtype), {out.sizes, out.strides, 0}, starts);
  std::vector<Source> sources{out.source};
  if (!view->covers) {
    sources.insert(sources.begin(), zeros(out.type));
    TORCH_INTERNAL_ASSERT(view->num_starts == 0 || view->gathers, "a fresh tensor starts at 0");
    for (int i = 0; i < view->num_starts; ++i) sources.push_back({Source::kStart, view->start_dtype, ~0u});
  }
  out.source = result(step(view->write, sources));
}

}  // namespace tpu::aten
