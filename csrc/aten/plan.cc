#include "aten/plan.h"

namespace tpu::aten {

const Plan* PlanTable::find(uint64_t hash, const Frame& frame) const {
  const Slots* slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return nullptr;
  for (size_t at = hash & slots->mask;; at = (at + 1) & slots->mask) {
    const Plan* plan = slots->plans[at].load(std::memory_order_acquire);
    if (plan == nullptr) return nullptr;
    if (slots->hashes[at].load(std::memory_order_relaxed) == hash && plan->words.size() == frame.words.size() &&
        std::equal(plan->words.begin(), plan->words.end(), frame.words.begin())) {
      return plan;
    }
  }
}

std::unique_ptr<PlanTable::Slots> PlanTable::make(size_t size) {
  auto slots = std::make_unique<Slots>();
  slots->mask = size - 1;
  slots->plans = std::make_unique<std::atomic<Plan*>[]>(size);
  slots->hashes = std::make_unique<std::atomic<uint64_t>[]>(size);
  return slots;
}

void PlanTable::place(Slots& slots, uint64_t hash, Plan* plan) {
  size_t at = hash & slots.mask;
  while (slots.plans[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) & slots.mask;
  slots.hashes[at].store(hash, std::memory_order_relaxed);
  slots.plans[at].store(plan, std::memory_order_release);
}

namespace {

std::vector<uint32_t> find_escaping(const Plan& plan) {
  std::vector<uint32_t> found;
  std::vector<bool> seen(plan.num_results);
  const auto add = [&](const Source& s) {
    if (s.kind != Source::kStep || seen[s.index]) return;
    seen[s.index] = true;
    found.push_back(s.index);
  };
  for (const Output& out : plan.outputs) {
    if (out.kind == Output::kFresh) add(out.source);
  }
  for (const Effect& e : plan.effects) add(e.source);
  if (plan.check >= 0) add({Source::kStep, {}, static_cast<uint32_t>(plan.check)});
  return found;
}

}  // namespace

Plan* PlanTable::insert(uint64_t hash, std::unique_ptr<Plan> plan) {
  plan->escaping = find_escaping(*plan);
  const std::lock_guard lock(mutex_);
  Plan* const inserted = plan.get();
  plans_.emplace_back(hash, std::move(plan));
  if (kept_.empty() || plans_.size() * 2 > kept_.back()->mask) {
    kept_.push_back(make(kept_.empty() ? 16 : (kept_.back()->mask + 1) * 2));
    for (const auto& [h, p] : plans_) place(*kept_.back(), h, p.get());
    slots_.store(kept_.back().get(), std::memory_order_release);
  } else {
    place(*kept_.back(), hash, inserted);
  }
  return inserted;
}

namespace {

// Where the arguments of `variant` stand in the functional schema: out= arguments come last and have no place.
bool matches(ops::Arg kind, const c10::Argument& argument) {
  const auto type = argument.real_type();
  const auto inner =
      type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
  const bool list = inner->kind() == c10::TypeKind::ListType;
  const bool tensor = inner->kind() == c10::TypeKind::TensorType;
  switch (kind) {
    case ops::Arg::kTensor:
    case ops::Arg::kLike: return tensor && inner == type;
    case ops::Arg::kOptionalTensor: return tensor;
    case ops::Arg::kTensors:
    case ops::Arg::kOptionalTensors: return list;
    case ops::Arg::kRandom: return inner->kind() == c10::TypeKind::GeneratorType;
    case ops::Arg::kScalar:
    case ops::Arg::kFactor:
    case ops::Arg::kPosition:
    case ops::Arg::kStatic:
    case ops::Arg::kDType: return !tensor;
    case ops::Arg::kIgnore: return true;
    case ops::Arg::kDrawn:
    case ops::Arg::kNumbers: break;
  }
  return false;
}

bool is_option(ops::Arg kind) { return kind == ops::Arg::kIgnore || kind == ops::Arg::kDType; }

// Whether an argument is that of the functional overload.
bool is_named(const c10::Argument& argument, const ops::Row& row, size_t position) {
  const size_t dot = row.name.find('.');
  const auto functional = c10::Dispatcher::singleton().findSchema(
      {"aten::" + row.name.substr(0, dot), dot == std::string::npos ? "" : row.name.substr(dot + 1)});
  return functional && functional->schema().arguments().at(position).name() == argument.name();
}

}  // namespace

Overload::Overload(const ops::Row* r, c10::OperatorHandle h, Kind k) : row(r), handle(std::move(h)), kind(k) {
  const auto& schema = handle.schema();
  const size_t n = schema.arguments().size();
  const auto add = [&](size_t i, ops::Arg arg, int16_t position) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool list = argument.type()->kind() == c10::TypeKind::ListType;
    const bool is_out = position < 0;
    if (is_out) arg = list ? ops::Arg::kTensors : ops::Arg::kTensor;
    TORCH_INTERNAL_ASSERT(matches(arg, argument), "op table: argument ", i, " (", argument.name(), ") of row ",
                          row->name, " does not fit PyTorch's schema ", schema);
    args.push_back({arg, written, list, position});
  };
  for (size_t position = 0; position < row->args.size(); ++position) {
    // out= overloads of factories go without the options of the tensor that they are given.
    if (kind == kOut && n > args.size() && is_option(row->args[position]) &&
        !is_named(schema.arguments()[args.size()], *row, position)) {
      continue;
    }
    TORCH_INTERNAL_ASSERT(args.size() < n, "op table: row ", row->name, " has ", row->args.size(),
                          " arguments, more than PyTorch's schema ", schema);
    add(args.size(), row->args[position], static_cast<int16_t>(position));
  }
  row_args = args.size();
  TORCH_INTERNAL_ASSERT(kind == kOut || n == row_args, "op table: row ", row->name, " has ", row_args,
                        " arguments, fewer than PyTorch's schema ", schema);
  while (args.size() < n) add(args.size(), {}, -1);
}

bool Overload::writes(size_t i, c10::ArrayRef<c10::IValue> arguments) const {
  if (args[i].written) return true;
  const auto& also = row->also_writes;
  if (std::find(also.begin(), also.end(), static_cast<int>(i)) == also.end()) return false;
  return row->writes_if < 0 || arguments[static_cast<size_t>(row->writes_if)].toBool();
}

}  // namespace tpu::aten
