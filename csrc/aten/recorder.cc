#include "aten/recorder.h"

#include "aten/dtype.h"
#include "aten/meta.h"

namespace tpu::aten {
namespace {

thread_local Recorder* active_recorder = nullptr;

}  // namespace

Recorder::Recorder(Plan& plan, const std::vector<std::pair<runtime::ValuePtr, Source>>& inputs)
    : plan_(plan), outer_(active_recorder) {
  for (const auto& [value, source] : inputs) {
    held_.push_back(value);
    known_.emplace(value.get(), source);
  }
  active_recorder = this;
}

Recorder::~Recorder() { active_recorder = outer_; }

Recorder* Recorder::active() { return active_recorder; }

Source Recorder::source_of(const runtime::Value* value) {
  const auto found = known_.find(value);
  if (found != known_.end()) return found->second;
  replayable_ = false;
  return {Source::kTensor, {}, 0};
}

void Recorder::note(const Plan& plan, const Frame& frame, const c10::SmallVectorImpl<runtime::ValuePtr>& values,
                    uint64_t offset) {
  if (outer_ != nullptr) outer_->note(plan, frame, values, offset);
  if (!replayable_) return;
  const uint32_t base = plan_.num_results;
  if (plan.random) {
    if (!plan_.random) first_offset_ = offset;
    plan_.random = true;
    plan_.random_count += plan.random_count;
  }
  for (const Step& step : plan.steps) {
    plan_.steps.push_back({step.call, static_cast<uint32_t>(plan_.sources.size()), base + step.first_result});
    for (size_t k = 0; k < step.call->operands.size(); ++k) {
      Source s = plan.sources[step.first_source + k];
      switch (s.kind) {
        case Source::kStep: s.index += base; break;
        case Source::kTensor: s = source_of(frame.tensors[s.index].cell->value.get()); break;
        case Source::kOffset: s.index += static_cast<uint32_t>(offset - first_offset_); break;
        case Source::kSeed: break;
        case Source::kStart:
        case Source::kNumber:
        case Source::kConstant:
          // Whatever the decomposition computed from the outer call is in that call's signature.
          plan_.constants.push_back(plan.bits(s, frame));
          s = {Source::kConstant, s.travels_as, static_cast<uint32_t>(plan_.constants.size() - 1)};
          break;
      }
      plan_.sources.push_back(s);
    }
  }
  plan_.num_results += plan.num_results;
  for (uint32_t r = 0; r < values.size(); ++r) {
    if (!values[r]) continue;
    held_.push_back(values[r]);
    known_[values[r].get()] = Source{Source::kStep, {}, base + r};
  }
}

void Recorder::add_output(const at::Tensor& t) {
  if (!t.defined()) {
    plan_.outputs.push_back({.kind = Output::kUndefined});
    return;
  }
  Frame frame;
  if (t.device().type() == at::kPrivateUse1) read_tensor(*t.unsafeGetTensorImpl(), frame);
  if (frame.tensors.empty() || !frame.tensors[0].cell->value) {
    replayable_ = false;
    return;
  }
  Output out;
  out.dtype = t.scalar_type();
  out.sizes = t.sizes().vec();
  out.strides = t.strides().vec();
  out.contiguous = t.is_contiguous();
  out.bytes = t.storage().nbytes();
  out.offset = t.storage_offset();
  out.type = frame.tensors[0].cell->type;
  out.source = source_of(frame.tensors[0].cell->value.get());
  out.contiguous = out.contiguous && out.offset == 0 && out.type->dims == out.sizes;
  plan_.outputs.push_back(std::move(out));
}

bool Recorder::finish(c10::ArrayRef<c10::IValue> returns) {
  for (const c10::IValue& v : returns) {
    if (v.isTensor()) {
      plan_.returns.push_back(-1);
      add_output(v.toTensor());
    } else if (v.isTensorList()) {
      const auto list = v.toTensorVector();
      plan_.returns.push_back(static_cast<int32_t>(list.size()));
      for (const at::Tensor& t : list) add_output(t);
    } else {
      plan_.returns.push_back(-1);
      plan_.outputs.push_back({.kind = Output::kConstant, .constant = v});
    }
  }
  return replayable_;
}

}  // namespace tpu::aten
