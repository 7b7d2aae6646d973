#include "aten/decompose.h"

#include <unordered_map>

#include "aten/made_of_calls.h"
#include "aten/native_checks.h"
#include "runtime/device.h"

namespace tpu::aten {
namespace {

Decompose decompose = nullptr;

// An operator that has a decomposition and no row. All its numbers are part of the signature, since a decomposition may
// do anything with them.
struct Decomposed {
  ops::Row row;
  Overload overload;
  explicit Decomposed(const c10::OperatorHandle& op) : row(make_row(op)), overload(&row, op, Overload::kFunctional) {}

 private:
  static ops::Row make_row(const c10::OperatorHandle& op) {
    ops::Row row;
    row.name = toString(op.operator_name()).substr(6);  // without aten::
    row.trait = ops::plain;
    for (const c10::Argument& argument : op.schema().arguments()) row.args.push_back(kind_of(*argument.real_type()));
    return row;
  }
  static ops::Arg kind_of(const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::TensorType: return ops::Arg::kTensor;
      case c10::TypeKind::GeneratorType: return ops::Arg::kRandom;
      case c10::TypeKind::ScalarTypeType: return ops::Arg::kDType;
      case c10::TypeKind::OptionalType: {
        const ops::Arg inner = kind_of(*type.expectRef<c10::OptionalType>().getElementType());
        return inner == ops::Arg::kTensor ? ops::Arg::kOptionalTensor : inner;
      }
      case c10::TypeKind::ListType: {
        const c10::TypePtr element = type.expectRef<c10::ListType>().getElementType();
        if (element->kind() == c10::TypeKind::TensorType) return ops::Arg::kTensors;
        return element->kind() == c10::TypeKind::OptionalType ? ops::Arg::kOptionalTensors : ops::Arg::kStatic;
      }
      default: return ops::Arg::kStatic;
    }
  }
};

struct Known {
  std::mutex mutex;
  std::unordered_map<c10::OperatorName, std::unique_ptr<Decomposed>> ops;
};
Known& known() {
  static auto* const known = new Known;
  return *known;
}

Decomposed& find(const c10::OperatorHandle& op) {
  const std::lock_guard lock(known().mutex);
  auto& slot = known().ops[op.operator_name()];
  if (!slot) slot = std::make_unique<Decomposed>(op);
  return *slot;
}

// Whether the result has the memory format of the first argument, which is not what its dense stand-in has.
bool keeps_format(const c10::OperatorHandle& op) { return op.operator_name().name == "aten::max_unpool2d"; }

}  // namespace

void set_decompose(Decompose d) { decompose = d; }

bool run_decomposed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (decompose == nullptr) return false;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (argument.alias_info() != nullptr) return false;  // writes or returns a view: not a function of values
  }
  Decomposed& known_op = find(op);
  const size_t n = op.schema().arguments().size();
  const bool done = run_made_of_calls(known_op.overload, stack, [&](torch::jit::Stack& inner) {
    check_natively(op, torch::jit::last(*stack, n).vec());
    if (!decompose(op, &inner)) return false;
    if (keeps_format(op)) {
      inner[0] = inner[0].toTensor().contiguous(torch::jit::peek(*stack, 0, n).toTensor().suggest_memory_format());
    }
    return true;
  });
  if (done) runtime::counters().decompositions.fetch_add(1, std::memory_order_relaxed);
  return done;
}

}  // namespace tpu::aten
