#include "aten/recorder.h"

#include "aten/dtype.h"
#include "aten/meta.h"
#include "runtime/region.h"

namespace tpu::aten {
namespace {

thread_local Recorder* active_recorder = nullptr;

}  // namespace

Recorder::Recorder(Plan& plan) : plan_(plan), outer_(active_recorder) { active_recorder = this; }

Recorder::~Recorder() { active_recorder = outer_; }

Recorder* Recorder::active() { return active_recorder; }

runtime::ValuePtr Recorder::value_of(const Source& source, const hlo::Type* type) {
  hlo::Call call;
  call.name = "stand-in";  // of a region that is never launched
  call.results = {type};
  runtime::Region& region = runtime::Region::current();
  const std::lock_guard lock(region.mutex);
  runtime::ValuePtr value = region.result(region.append(hlo::intern(std::move(call)), {}, {}));
  held_.push_back(value);
  known_.emplace(value.get(), source);
  return value;
}

at::Tensor Recorder::stand_in(const Source& source, at::ScalarType dtype, at::IntArrayRef sizes) {
  const hlo::Type* type = hlo::intern({to_dtype(dtype), sizes.vec()});
  return make_tensor(value_of(source, type), type, dtype);
}

at::Tensor Recorder::stand_in(const Source& source, const hlo::Type* type, const at::Tensor& like) {
  return make_tensor(value_of(source, type), type, like.scalar_type(), like.sizes(), like.strides(),
                     like.storage().nbytes());
}

void Recorder::refuse_value() {
  give_up();
  TORCH_CHECK(false, "a graph that depends on the elements of a tensor is not traced");
  std::abort();
}

Source Recorder::source_of(const runtime::Value* value) {
  const auto found = known_.find(value);
  if (found != known_.end()) return found->second;
  replayable_ = false;
  return {Source::kTensor, {}, 0};
}

void Recorder::note(const Plan& plan, const Frame& frame, const c10::SmallVectorImpl<runtime::ValuePtr>& values,
                    uint64_t offset) {
  if (!replayable_) return;
  const uint32_t base = plan_.num_results;
  if (plan.random) {
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
        case Source::kOffset: s.index += static_cast<uint32_t>(offset); break;
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

void Recorder::add_output(const at::Tensor& t, bool in_list) {
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
  if (!in_list) {
    const auto number = static_cast<int32_t>(plan_.returns.size()) - 1;
    const auto [first, is_first] = return_of_.emplace(frame.tensors[0].cell, number);
    if (!is_first) out.shares = first->second;
  }
  plan_.outputs.push_back(std::move(out));
}

bool Recorder::finish(c10::ArrayRef<c10::IValue> returns) {
  for (const c10::IValue& v : returns) {
    if (v.isTensor()) {
      plan_.returns.push_back(-1);
      add_output(v.toTensor(), false);
    } else if (v.isTensorList()) {
      const auto list = v.toTensorVector();
      plan_.returns.push_back(static_cast<int32_t>(list.size()));
      for (const at::Tensor& t : list) add_output(t, true);
    } else {
      plan_.returns.push_back(-1);
      plan_.outputs.push_back({.kind = Output::kConstant, .constant = v});
    }
  }
  return replayable_;
}

}  // namespace tpu::aten
