#include "aten/plan_steps.h"

#include <ATen/MemoryOverlap.h>

#include <numeric>

#include "aten/dtype.h"
#include "hlo/padding.h"
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

void StepBuilder::append_starts(const hlo::ViewClass& view, uint32_t first, std::vector<Source>& to) {
  for (int i = 0; i < view.num_starts; ++i) {
    to.push_back({Source::kStart, view.start_dtype, first + static_cast<uint32_t>(i)});
  }
}

Source StepBuilder::read(uint32_t tensor) {
  const TensorArg& t = frame_.tensors[tensor];
  if (frame_.crops && t.cell->value && t.cell->value->type != t.cell->type) {
    const Source padded = contents(tensor);
    const Source whole = result(step(hlo::crop_padding(t.cell->value->type, t.cell->type), {&padded, 1}));
    return t.cropped == nullptr ? whole : read_through(*t.cropped, t.first_cropped_start, whole);
  }
  return t.view == nullptr ? contents(tensor) : read_through(*t.view, t.first_start, contents(tensor));
}

Source StepBuilder::read_through(const hlo::ViewClass& view, uint32_t first, Source whole) {
  std::vector<Source> sources{whole};
  append_starts(view, first, sources);
  return result(step(view.read, sources));
}

// The view that reads more of dimensions in which the tensor repeats itself; its starts are those of the tensor's own.
const hlo::ViewClass* StepBuilder::stretched(const TensorArg& t, const hlo::Dims& sizes) const {
  const hlo::ViewClass* const own = t.physical != nullptr ? t.whole : t.view;
  if (own == nullptr || own->sizes.size() != sizes.size()) return nullptr;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != own->sizes[d] && own->strides[d] != 0) return nullptr;
  }
  int64_t starts[hlo::kMaxDigits];
  const hlo::ViewClass* view = hlo::classify(own->base, own->dtype, {sizes, own->strides, 0}, starts);
  return view->gathers == own->gathers && view->num_starts == own->num_starts ? view : nullptr;
}

bool StepBuilder::can_read_as(uint32_t tensor, const hlo::Dims& sizes) const {
  const TensorArg& t = frame_.tensors[tensor];
  if (t.physical != nullptr ? sizes == t.physical->dims : t.impl->sizes().equals(sizes)) return true;
  return stretched(t, sizes) != nullptr;
}

Source StepBuilder::read_as(uint32_t tensor, const hlo::Dims& sizes) {
  const TensorArg& t = frame_.tensors[tensor];
  if (t.physical == nullptr && t.impl->sizes().equals(sizes)) return read(tensor);
  const bool whole = t.physical != nullptr && sizes == t.physical->dims;
  if (whole && t.whole == nullptr) return contents(tensor);
  const hlo::ViewClass& view = whole ? *t.whole : *stretched(t, sizes);
  return read_through(view, t.physical != nullptr ? t.first_whole_start : t.first_start, contents(tensor));
}

void StepBuilder::write(uint32_t tensor, Source value, bool all_equal) {
  const TensorArg& t = frame_.tensors[tensor];
  write_through(t.view, t.first_start, tensor, value, all_equal);
}

void StepBuilder::write_whole(uint32_t tensor, Source value) {
  const TensorArg& t = frame_.tensors[tensor];
  write_through(t.whole, t.first_whole_start, tensor, value, /*all_equal=*/false);
}

void StepBuilder::write_through(const hlo::ViewClass* view, uint32_t first, uint32_t tensor, Source value,
                                bool all_equal) {
  if (view != nullptr) {
    if (view->overlaps && !all_equal) at::assert_no_internal_overlap(frame_.tensors[tensor].impl);
    std::vector<Source> sources{value};
    if (!view->covers) {
      sources.insert(sources.begin(), contents(tensor));
      append_starts(*view, first, sources);
    }
    value = result(step(view->write, sources));
  }
  written_.insert_or_assign(frame_.tensors[tensor].cell, value);
  plan_.effects.push_back({tensor, value});
}

void StepBuilder::fill(Output& out, Source value, const hlo::Dims& sizes) {
  out.source = value;
  if (out.type->dims == out.sizes && out.contiguous) return;
  int64_t starts[hlo::kMaxDigits];
  if (sizes != out.sizes) {  // dense: the padded sizes in the order of memory
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto moves = [&](size_t a, size_t b) {
      return out.sizes[a] > 1 && out.sizes[b] > 1 && out.strides[a] > out.strides[b];
    };
    std::stable_sort(order.begin(), order.end(), moves);
    hlo::Type type{to_dtype(out.dtype), {}};
    for (const size_t d : order) type.dims.push_back(sizes[d]);
    hlo::Dims strides(sizes.size());
    int64_t stride = 1;
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
      strides[*d] = stride;
      stride *= sizes[*d];
    }
    const hlo::ViewClass* view = hlo::classify(hlo::intern(type), type.dtype, {sizes, strides, 0}, starts);
    TORCH_INTERNAL_ASSERT(view->covers, "a dense tensor fills its memory");
    out.source = result(step(view->write, {&value, 1}));
    return;
  }
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
