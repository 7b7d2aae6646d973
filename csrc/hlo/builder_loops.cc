// Forms that XLA's CPU compiler makes into vectors. It fuses what is done element by element into loops, which may
// write where an operand was. LLVM then proves by comparing addresses that no element is overwritten before it is read,
// and it has two ways: one that takes equal addresses, where all that is read and written has the same width and steps
// alike, and one that does not. A loop on the second way runs number by number, which costs little for arithmetic, but
// four to ten times as much for functions such as tanh.
#include <algorithm>

#include "hlo/builder.h"

namespace tpu::hlo {
namespace {

bool is_function(std::string_view op) {
  constexpr std::string_view kFunctions[] = {
      "stablehlo.exponential", "stablehlo.exponential_minus_one",
      "stablehlo.log",         "stablehlo.log_plus_one",
      "stablehlo.tanh",        "stablehlo.logistic",
      "stablehlo.sine",        "stablehlo.cosine",
      "stablehlo.tan",         "stablehlo.cbrt",
      "stablehlo.power",       "stablehlo.atan2",
  };
  return (op.starts_with("chlo.") && !op.starts_with("chlo.is_")) ||
         std::ranges::find(kFunctions, op) != std::end(kFunctions);
}

}  // namespace

// What was spread from fewer elements goes first where the order is free: operands are evaluated in their order, and
// the load of what does not change is moved out of a loop only if no call of a function comes before it. It is one that
// does not step.
Value Builder::commutative(std::string_view op, Value a, Value b) {
  return b && elements_of(b) < elements_of(a) ? binary(op, b, a) : binary(op, a, b);
}

int64_t Builder::elements_of(Value v) const {
  const auto spread = spread_.find(v.id);
  return spread != spread_.end() ? spread->second : v.numel();
}

Builder::Loop Builder::loop_of(Value v) const {
  const auto known = loops_.find(v.id);
  if (known != loops_.end()) return known->second;
  const auto width = v.rank() == 0 ? 0 : static_cast<size_t>(size_of(v.dtype()));
  return {width, width, false};
}

Value Builder::settle(Value x) {
  const Loop loop = loop_of(x);
  return for_cpu_ && loop.in_second_way(x) ? optimization_barrier({x})[0] : x;
}

// Elements of several widths, as of numbers and their mask, do not share a loop with a function that may work in place:
// it ends before, or begins after.
Value Builder::in_loop(std::string_view op, Values operands, const std::function<Value(const Values&)>& emit) {
  const bool calls = is_function(op);
  const auto joined = [&] {
    Loop loop{0, 0, calls};
    for (const Value& v : operands) {
      const Loop l = loop_of(v);
      loop.reads |= l.reads, loop.overwrites |= l.overwrites, loop.calls |= l.calls;
      loop.spreads |= l.spreads;
    }
    return loop;
  };
  Loop loop = joined();
  if (for_cpu_ && loop.calls && loop.in_second_way(operands.back())) {
    for (Value& v : operands) {
      const Loop l = loop_of(v);
      const bool as_read = l.reads == 0 || l.reads == static_cast<size_t>(size_of(v.dtype()));
      if (l.calls || (calls && !as_read)) v = optimization_barrier({v})[0];
    }
    loop = joined();
  }
  const Value made = emit(operands);
  loops_[made.id] = loop;
  return made;
}

// Whether a loop whose results are as wide as `result` may have to write where it reads, and reads other widths too.
bool Builder::Loop::in_second_way(Value result) const {
  return (reads & (reads - 1)) != 0 && (overwrites & static_cast<size_t>(size_of(result.dtype()))) != 0;
}

}  // namespace tpu::hlo
