#include "aten/growth.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "aten/dtype.h"
#include "aten/recorder.h"
#include "hlo/view_emit.h"
#include "ops/growing.h"
#include "runtime/region.h"

namespace tpu::aten {
namespace {

using hlo::Dims;
using hlo::Type;

Dynamism from_environment() {
  const char* v = std::getenv("TORCH_TPU_DYNAMISM");
  if (v == nullptr || *v == '\0' || std::strcmp(v, "auto") == 0) return Dynamism::kAuto;
  if (std::strcmp(v, "off") == 0) return Dynamism::kOff;
  if (std::strcmp(v, "all") == 0) return Dynamism::kAll;
  TORCH_CHECK(false, "TORCH_TPU_DYNAMISM is \"", v, "\", expected \"off\", \"auto\" or \"all\"");
}

Dynamism& level() {
  static thread_local Dynamism mine = from_environment();
  return mine;
}

// Room for `size` steps along a dimension: few different ones, and little of them empty where that is much memory.
int64_t room_for(int64_t size, int64_t bytes_per_step) {
  constexpr int64_t kLeast = 16, kSmall = int64_t{1} << 16, kMedium = int64_t{1} << 22;
  int64_t room = kLeast;
  while (room < size) room *= room * 4 * bytes_per_step <= kSmall ? 4 : 2;
  if (room * bytes_per_step <= kMedium) return room;
  for (const int64_t quarters : {5, 6, 7}) {
    if (const int64_t less = room / 8 * quarters; less >= size) return less;
  }
  return room;
}

// How the joins of one kind went so far.
struct Chain {
  int64_t last = -1;    // size of the last result
  int links = 0;        // results in a row that were made from the one before
  int64_t padded = -1;  // size of the last result that had padding
  bool off = false;     // somebody takes the padding away each time
};

// By what does not grow. A plan is built once a signature, so that sizes that come again are not seen again.
class Chains {
 public:
  // Whether joins of this kind grow a tensor: asked for one of parts without padding.
  bool grow(const hlo::Call& call, size_t dim) {
    constexpr int kEnough = 2;
    int64_t largest = 0;
    for (const Type* part : call.operands) largest = std::max(largest, part->dims[dim]);
    const std::lock_guard lock(mutex_);
    Chain& chain = of(call, dim);
    chain.links = largest == chain.last ? chain.links + 1 : 0;
    chain.off = chain.off || largest == chain.padded;
    chain.last = call.results[0]->dims[dim];
    chain.padded = -1;
    return chain.links >= kEnough && !chain.off;
  }
  // A result that has room for `room`.
  void note(const hlo::Call& call, size_t dim, int64_t room) {
    const std::lock_guard lock(mutex_);
    Chain& chain = of(call, dim);
    chain.last = call.results[0]->dims[dim];
    chain.padded = room > chain.last ? chain.last : -1;
  }

 private:
  Chain& of(const hlo::Call& call, size_t dim) {
    Type kind = *call.results[0];
    kind.dims[dim] = -1;
    return chains_[kind.str()];
  }
  std::mutex mutex_;
  std::unordered_map<std::string, Chain> chains_;
};

Chains& chains() {
  static auto* const chains = new Chains;
  return *chains;
}

int64_t bytes_per_step(const Type& type, int64_t dim) {
  return std::max<int64_t>(1, type.bytes() / std::max<int64_t>(1, type.dims[static_cast<size_t>(dim)]));
}

Source constant(Plan& plan, int64_t size) {
  plan.constants.emplace_back(static_cast<uint64_t>(size), uint64_t{0});
  return {Source::kConstant, hlo::kSizeDType, static_cast<uint32_t>(plan.constants.size() - 1)};
}

const Dims& whole_dims(const GrowingCall& what, const hlo::Call& call, const Reading& r) {
  const Type* physical = what.frame.tensors[r.tensor].physical;
  return physical != nullptr ? physical->dims : call.operands[r.operand]->dims;
}

// Whether results of these sizes have where to go.
bool fits(const GrowingCall& what, const hlo::Call& call, const std::vector<Dims>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == call.results[i]->dims) continue;
    if (i < what.fresh.size()) {
      const Output& out = *what.fresh[i];
      if (out.type->dims.size() != results[i].size() || out.type->numel() != call.results[i]->numel()) return false;
    } else {
      const Type* target = what.frame.tensors[what.targets[i - what.fresh.size()]].physical;
      if (target == nullptr || target->dims != results[i]) return false;
    }
  }
  return true;
}

void set_results(hlo::Call& call, const std::vector<Dims>& results) {
  for (size_t i = 0; i < results.size(); ++i) call.results[i] = hlo::intern({call.results[i]->dtype, results[i]});
}

// --- a row that says how it grows ---

bool grow_row(const GrowingCall& what, hlo::Call& call, std::vector<Source>& sources, StepBuilder& steps, Plan& plan) {
  if (what.row.grows == nullptr || (what.frame.debug() && what.row.check != nullptr)) return false;
  ops::Growth growth{.call = call};
  for (const Type* type : call.operands) growth.operands.push_back(type->dims);
  for (const Type* type : call.results) growth.results.push_back(type->dims);
  growth.masks.resize(call.operands.size());
  for (const Reading& r : what.readings) growth.operands[r.operand] = whole_dims(what, call, r);
  if (!what.row.grows(growth) || (growth.rounds && dynamism() != Dynamism::kAll)) return false;
  if (!fits(what, call, growth.results)) return false;
  for (const Reading& r : what.readings) {
    if (!steps.can_read_as(r.tensor, growth.operands[r.operand])) return false;
  }
  for (const Reading& r : what.readings) {
    const Dims meant = call.operands[r.operand]->dims;
    const Type* type = hlo::intern({call.operands[r.operand]->dtype, growth.operands[r.operand]});
    Source source = steps.read_as(r.tensor, type->dims);
    const ops::Growth::Mask& mask = growth.masks[r.operand];
    if (!mask.dims.empty()) {
      std::vector<Source> parts{source};
      for (const int64_t d : mask.dims) parts.push_back(constant(plan, meant[static_cast<size_t>(d)]));
      source = StepBuilder::result(steps.step(hlo::mask_padding(type, mask.dims, mask.fill), parts));
    }
    sources[r.operand] = source;
    call.operands[r.operand] = type;
  }
  if (const ops::Growth::Added& added = growth.added; added.room > 0) {
    const Type* type = hlo::intern({added.dtype, {added.room}});
    const Source parts[] = {StepBuilder::result(steps.step(hlo::undefined(type), {})), constant(plan, added.size)};
    const uint32_t made = steps.step(hlo::mask_padding(type, {0}, added.fill), parts);
    const auto at = static_cast<std::ptrdiff_t>(added.at);
    sources.insert(sources.begin() + at, StepBuilder::result(made));
    call.operands.insert(call.operands.begin() + at, type);
    call.attributes[added.at] = int64_t{1};
  }
  set_results(call, growth.results);
  return true;
}

// The result is of one value, and has the padding of what it is like.
bool grow_alike(const GrowingCall& what, hlo::Call& call, std::vector<Source>& sources, StepBuilder& steps) {
  const Type* physical = what.frame.tensors[*what.like].physical;
  if (physical == nullptr || !fits(what, call, {physical->dims})) return false;
  for (const Reading& r : what.readings) sources[r.operand] = steps.read(r.tensor);
  set_results(call, {physical->dims});
  return true;
}

// --- joining ---

bool grow_join(const GrowingCall& what, hlo::Call& call, std::vector<Source>& sources, StepBuilder& steps, Plan& plan) {
  const Type result = *call.results[0];
  const auto* given = std::get_if<int64_t>(&call.attributes[1]);
  if (given == nullptr || result.dims.empty() || result.numel() == 0) return false;
  const int64_t dim = *given < 0 ? *given + result.rank() : *given;
  const auto at = static_cast<size_t>(dim);
  std::vector<Reading> parts;
  for (const Reading& r : what.readings) {
    if (call.operands[r.operand]->rank() != result.rank()) return false;
    if (call.operands[r.operand]->numel() > 0) parts.push_back(r);
  }
  Dims sizes = result.dims, padded;
  int64_t room = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Dims& dims = whole_dims(what, call, parts[i]);
    if (dims[at] != call.operands[parts[i].operand]->dims[at]) {
      padded.push_back(static_cast<int64_t>(i));
      room = std::max(room, dims[at]);
    }
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d == at) continue;
      if (i > 0 && sizes[d] != dims[d]) return false;
      sizes[d] = dims[d];
    }
  }
  const int64_t total = result.dims[at];
  const bool starts = padded.empty() && sizes == result.dims;
  if (starts && (!what.frame.grows || !chains().grow(call, at))) return false;
  if (!padded.empty() || starts) {
    sizes[at] = room >= total ? room : room_for(total, bytes_per_step(result, dim));
  }
  if (total < 2 || !fits(what, call, {sizes})) return false;
  if (starts || !padded.empty()) chains().note(call, at, sizes[at]);
  std::vector<Source> from;
  std::vector<const Type*> types;
  for (const Reading& r : parts) {
    types.push_back(hlo::intern({call.operands[r.operand]->dtype, whole_dims(what, call, r)}));
    from.push_back(steps.read_as(r.tensor, types.back()->dims));
  }
  for (const int64_t i : padded) {
    from.push_back(constant(plan, call.operands[parts[static_cast<size_t>(i)].operand]->dims[at]));
  }
  call = *hlo::cat_padded(types, dim, padded, hlo::intern({result.dtype, sizes}));
  sources = std::move(from);
  return true;
}

// The sizes of a tensor with the padding of the dimensions that it shows from end to end.
Dims whole_sizes(const Type& logical, const Type& physical, at::IntArrayRef sizes, const Dims& strides,
                 int64_t offset) {
  Dims whole = sizes.vec();
  int64_t place = 1;
  for (size_t k = physical.dims.size(); k-- > 0; place *= physical.dims[k]) {
    if (physical.dims[k] == logical.dims[k] || offset / place % physical.dims[k] != 0) continue;
    for (size_t d = 0; d < whole.size(); ++d) {
      if (sizes[d] == logical.dims[k] && sizes[d] > 1 && strides[d] == place) whole[d] = physical.dims[k];
    }
  }
  return whole;
}

}  // namespace

Dynamism dynamism() { return level(); }
void set_dynamism(Dynamism l) { level() = l; }

bool place(const at::TensorImpl& impl, const Cell& cell, hlo::Dims& strides, int64_t& offset) {
  const Type &logical = *cell.type, &physical = *cell.value->type;
  if (static_cast<int64_t>(impl.itemsize()) != size_of(logical.dtype)) return false;
  const at::IntArrayRef sizes = impl.sizes(), steps = impl.strides();
  const hlo::Geometry geometry{{sizes.data(), sizes.size()}, {steps.data(), steps.size()}, impl.storage_offset()};
  return hlo::place_in_padded(logical, physical, geometry, strides, offset);
}

bool read_padded(const at::TensorImpl& impl, const Cell& cell, Frame& frame, TensorArg& arg) {
  const Type* const physical = cell.value->type;
  const DType dtype = to_dtype(c10::typeMetaToScalarType(impl.dtype()));
  const at::IntArrayRef sizes = impl.sizes();
  Dims strides;
  int64_t offset = 0;
  if (!place(impl, cell, strides, offset)) return false;
  int64_t starts[hlo::kMaxDigits];
  const auto read_as = [&](std::span<const int64_t> dims, uint32_t& first) {
    const auto* view = hlo::classify(physical, dtype, {dims, strides, offset}, starts);
    first = static_cast<uint32_t>(frame.starts.size());
    frame.starts.append(starts, starts + view->num_starts);
    return view;
  };
  arg.view = read_as({sizes.data(), sizes.size()}, arg.first_start);
  if (frame.crops) {
    const at::IntArrayRef own = impl.strides();
    arg.cropped = hlo::classify(
        cell.type, dtype, {{sizes.data(), sizes.size()}, {own.data(), own.size()}, impl.storage_offset()}, starts);
    arg.first_cropped_start = static_cast<uint32_t>(frame.starts.size());
    frame.starts.append(starts, starts + arg.cropped->num_starts);
    if (arg.cropped->identity && sizes.equals(cell.type->dims)) arg.cropped = nullptr;
  }
  if (dynamism() == Dynamism::kOff) return true;
  const Dims whole = whole_sizes(*cell.type, *physical, sizes, strides, offset);
  if (sizes.equals(whole)) return true;
  arg.physical = hlo::intern({dtype, whole});
  arg.whole = read_as(whole, arg.first_whole_start);
  if (arg.whole->identity && *arg.physical == *physical) arg.whole = nullptr;
  return true;
}

void read_growth(Frame& frame) {
  const TensorArg* largest = nullptr;
  for (const TensorArg& t : frame.tensors) {
    if (largest == nullptr || t.impl->numel() > largest->impl->numel()) largest = &t;
  }
  // What a region still holds is joined in one program, whatever the sizes.
  const bool defers = runtime::Region::current().mode() == runtime::Mode::kDefer;
  const bool deferred =
      defers && largest != nullptr && largest->cell->value && largest->cell->value->region() != nullptr;
  frame.grows = dynamism() != Dynamism::kOff && !deferred && Recorder::active() == nullptr;
  frame.words.push_back(frame.grows);
}

bool grow(const GrowingCall& what, hlo::Call& call, std::vector<Source>& sources, StepBuilder& steps, Plan& plan) {
  const bool padded = std::any_of(what.readings.begin(), what.readings.end(),
                                  [&](const Reading& r) { return what.frame.tensors[r.tensor].physical != nullptr; });
  if (what.like) return grow_alike(what, call, sources, steps);
  if (what.row.joins) return grow_join(what, call, sources, steps, plan);
  return padded && grow_row(what, call, sources, steps, plan);
}

}  // namespace tpu::aten
