// One run of a plan: what replay needs beside the plan and the frame, and the recording of its steps.
#pragma once

#include "aten/errors.h"
#include "aten/plan.h"
#include "runtime/region.h"

namespace tpu::aten {

struct Run {
  const Plan& plan;
  const Frame& frame;
  uint64_t seed = 0, offset = 0;

  std::pair<uint64_t, uint64_t> bits(const Source& s) const {
    switch (s.kind) {
      case Source::kSeed: return {seed, 0};
      case Source::kOffset: return {offset + s.index, 0};
      default: return plan.bits(s, frame);
    }
  }
};

// Values that the plan hands out, by plan result; those that do not escape stay null.
using Values = c10::SmallVector<runtime::ValuePtr, 8>;

// Appends a step to a region whose mutex is held. `results`: a Ref per plan result, filled in for this step's.
inline void record_step(const Run& run, const Step& step, runtime::Region& region, runtime::Line line,
                        c10::SmallVectorImpl<runtime::Ref>& results) {
  using runtime::Ref;
  c10::SmallVector<Ref, 16> operands;
  for (size_t k = 0; k < step.call->operands.size(); ++k) {
    const Source& s = run.plan.sources[step.first_source + k];
    if (s.kind == Source::kStep) {
      operands.push_back(results[s.index]);
    } else if (s.kind == Source::kTensor) {
      operands.push_back(region.input(*run.frame.tensors[s.index].cell->value));
    } else {
      const auto [low, high] = run.bits(s);
      operands.push_back(region.scalar(s.travels_as, low, high));
    }
  }
  const uint32_t first = region.append(step.call, operands, line);
  for (uint32_t r = 0; r < step.call->results.size(); ++r)
    results[step.first_result + r] = Ref(Ref::kResult, first + r);
}

// A value of this thread's region, or one that is not deferred.
inline void settle(runtime::Value& value, const runtime::Region& region) {
  const runtime::Region* other = value.region();
  if (other != nullptr && other != &region) check(runtime::ensure_ready(value));
}

}  // namespace tpu::aten
