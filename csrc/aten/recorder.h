// Turns the calls that an operator is made of into one plan. While a recorder lives, the calls of the thread are made
// on stand-ins, which have no elements; each adds its steps to the plan.
#pragma once

#include <unordered_map>
#include <utility>

#include "aten/plan.h"

namespace tpu::aten {

class Recorder {
 public:
  explicit Recorder(Plan& plan);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  // The recorder of the calling thread, or null.
  static Recorder* active();

  // A contiguous tensor that stands for what `source` will be.
  at::Tensor stand_in(const Source& source, at::ScalarType dtype, at::IntArrayRef sizes);
  // One of the geometry of `like`, over a storage whose contents will be `source`, a value of `type`.
  at::Tensor stand_in(const Source& source, const hlo::Type* type, const at::Tensor& like);
  // Counters of the generator, as the plan will take them.
  uint64_t draw(uint64_t count) { return std::exchange(drawn_, drawn_ + count); }
  // A call that was just recorded in the region; its effects are not applied yet.
  void note(const Plan& plan, const Frame& frame, const c10::SmallVectorImpl<runtime::ValuePtr>& values,
            uint64_t seed_offset);
  // Something that cannot be replayed happened: a value came from outside, or went there.
  void give_up() { replayable_ = false; }
  // An element of a stand-in is asked for: throws.
  [[noreturn]] void refuse_value();
  bool replayable() const { return replayable_; }

  // Makes the returns of the calls the outputs of the plan. False where it cannot be replayed.
  bool finish(c10::ArrayRef<c10::IValue> returns);

 private:
  runtime::ValuePtr value_of(const Source& source, const hlo::Type* type);
  Source source_of(const runtime::Value* value);
  void add_output(const at::Tensor& t, bool in_list);

  Plan& plan_;
  Recorder* const outer_;
  bool replayable_ = true;
  uint64_t drawn_ = 0;
  std::unordered_map<const runtime::Value*, Source> known_;
  std::unordered_map<const Cell*, int32_t> return_of_;  // the first return over a storage
  std::vector<runtime::ValuePtr> held_;                 // so that no address is used twice
};

}  // namespace tpu::aten
