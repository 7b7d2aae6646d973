// Operators without a row, that PyTorch does not make of others either, run on the CPU: with one warning an operator,
// and counted.

#include <ATen/native/CPUFallback.h>
#include <c10/util/ScopeExit.h>

#include <mutex>
#include <unordered_set>

#include "aten/decompose.h"
#include "aten/fallback.h"
#include "aten/registration.h"
#include "runtime/device.h"

namespace tpu::aten {
namespace {

struct Seen {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
};
Seen& seen() {
  static auto* const seen = new Seen;
  return *seen;
}

// Made of other operators in PyTorch. Structured operators have a kernel for this key too, which calls the one for the
// device.
constexpr c10::DispatchKey kComposite = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;
bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(kComposite) && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // Decompositions and functional forms may stand on the very operator: then it runs on the CPU.
  thread_local std::unordered_set<c10::OperatorName> running;
  if (running.insert(op.operator_name()).second) {
    const auto done = c10::make_scope_exit([&] { running.erase(op.operator_name()); });
    if (run_decomposed(op, stack) || run_functional(op, stack)) return;
    if (is_composite(op)) {
      op.callBoxedForDispatchKey(kComposite, *stack);
      return;
    }
  }
  const std::string name = toString(op.operator_name());
  runtime::counters().cpu_fallbacks.fetch_add(1, std::memory_order_relaxed);
  bool first = false;
  {
    const std::lock_guard lock(seen().mutex);
    first = ++seen().counts[name] == 1;
  }
  if (first) TORCH_WARN("device tpu has no ", name, ": it runs on the CPU, which is slow");
  at::native::cpu_fallback(op, stack);
}

namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace

std::map<std::string, int64_t> fallback_counts() {
  const std::lock_guard lock(seen().mutex);
  return seen().counts;
}

}  // namespace tpu::aten
