// Turns the calls that an operator is made of into one plan. While a recorder lives, each engine call of the thread
// adds its steps to it; what results is replayed on later calls without running the decomposition again.
#pragma once

#include <unordered_map>

#include "aten/plan.h"

namespace tpu::aten {

class Recorder {
 public:
  // Records into `plan`; `inputs` says where the values come from that the decomposition starts with.
  Recorder(Plan& plan, const std::vector<std::pair<runtime::ValuePtr, Source>>& inputs);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  // The recorder of the calling thread, or null.
  static Recorder* active();

  // A call that was just recorded in the region; its effects are not applied yet.
  void note(const Plan& plan, const Frame& frame, const c10::SmallVectorImpl<runtime::ValuePtr>& values,
            uint64_t seed_offset);
  // Something that cannot be replayed happened: a value was read back, or came from outside.
  void give_up() { replayable_ = false; }

  // Makes the returns of the decomposition the outputs of the plan. False where it cannot be replayed.
  bool finish(c10::ArrayRef<c10::IValue> returns);

 private:
  Source source_of(const runtime::Value* value);
  void add_output(const at::Tensor& t);

  Plan& plan_;
  Recorder* const outer_;
  bool replayable_ = true;
  uint64_t first_offset_ = 0;
  std::unordered_map<const runtime::Value*, Source> known_;
  std::vector<runtime::ValuePtr> held_;  // so that no address is used twice
};

}  // namespace tpu::aten
