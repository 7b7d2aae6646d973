#include "aten/record.h"

#include "aten/dtype.h"
#include "aten/errors.h"
#include "aten/recorder.h"
#include "hlo/builder.h"
#include "hlo/view_emit.h"

namespace tpu::aten {
namespace {

using runtime::Mode;
using runtime::Ref;
using runtime::Region;
using runtime::ValuePtr;

hlo::Values emit_resized(hlo::Builder& b, const hlo::Call& call, std::span<const hlo::Value> operands) {
  const hlo::Type& want = *call.results[0];
  hlo::Value x = b.flatten(operands[0]);
  const int64_t from = x.type->bytes(), to = want.bytes();
  if (want.dtype != x.dtype()) {  // bytes that are no whole element
    if (x.dtype() == DType::kBool) x = b.convert(x, DType::kU8);
    x = b.flatten(b.bitcast(x, DType::kU8));
  }
  const int64_t item = size_of(x.dtype());
  if (to < from) {
    x = b.slice_dim(x, 0, 0, to / item);
  } else {
    x = b.pad(x, b.scalar(0, x.dtype()), {0}, {(to - from) / item});
  }
  return {b.reshape(x, want.dims)};
}

// What a tensor reads as.
struct Read {
  ValuePtr value;         // null: undefined contents, which read as zeros
  const hlo::Type* type;  // of the value
  const hlo::ViewClass* view;
  std::span<const int64_t> starts;
};

// Records the reads, and `call` on what they give; without a call, the only read is the result.
std::vector<ValuePtr> record_call(const hlo::Call* call, std::span<const Read> reads) {
  refuse_fork();
  Region& region = Region::current();
  for (const Read& read : reads) {
    if (read.value) settle(*read.value, region);
  }
  const runtime::Line line = runtime::current_line();
  const std::lock_guard lock(region.mutex);
  if (Recorder* recorder = Recorder::active()) recorder->give_up();
  uint32_t first = 0;
  const auto append = [&](const hlo::Call* what, std::span<const Ref> operands) {
    return Ref(Ref::kResult, first = region.append(what, operands, line));
  };
  std::vector<Ref> refs;
  for (const Read& read : reads) {
    if (read.value) {
      refs.push_back(region.input(*read.value));
    } else {
      refs.push_back(append(hlo::undefined(read.type), {}));
    }
    if (read.view == nullptr) continue;
    std::vector<Ref> parts{refs.back()};
    for (const int64_t start : read.starts) {
      parts.push_back(region.scalar(read.view->start_dtype, static_cast<uint64_t>(start), 0));
    }
    refs.back() = append(read.view->read, parts);
  }
  if (call != nullptr) append(call, refs);
  std::vector<ValuePtr> results;
  const size_t count = call != nullptr ? call->results.size() : 1;
  for (uint32_t r = 0; r < count; ++r) results.push_back(region.result(first + r));
  if (region.mode() != Mode::kDefer && region.holds == 0) check(region.cut_locked());
  return results;
}

Read read_of(const Frame& frame, size_t tensor) {
  const TensorArg& t = frame.tensors[tensor];
  Read read{t.cell->value, t.cell->type, t.view, {}};
  if (t.view != nullptr) read.starts = {frame.starts.data() + t.first_start, static_cast<size_t>(t.view->num_starts)};
  return read;
}

}  // namespace

std::vector<at::Tensor> record(hlo::Call call, const std::vector<at::Tensor>& operands) {
  Frame frame;
  const auto read_all = [&] {
    for (const at::Tensor& t : operands) read_tensor(*t.unsafeGetTensorImpl(), frame);
  };
  read_all();
  if (frame.stale) {
    frame = Frame();
    read_all();
  }
  for (const at::Tensor& t : operands) {
    call.operands.push_back(hlo::intern({to_dtype(t.scalar_type()), t.sizes().vec()}));
  }
  std::vector<Read> reads;
  for (size_t i = 0; i < frame.tensors.size(); ++i) reads.push_back(read_of(frame, i));
  std::vector<at::Tensor> tensors;
  for (ValuePtr& value : record_call(hlo::intern(std::move(call)), reads)) {
    const hlo::Type* type = value->type;
    tensors.push_back(make_tensor(std::move(value), type, to_scalar_type(type->dtype)));
  }
  return tensors;
}

void remove_padding(Cell& cell) {
  const hlo::Type* const physical = cell.value->type;
  hlo::Dims strides(physical->dims.size(), 1);
  for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * physical->dims[d];
  int64_t starts[hlo::kMaxDigits];
  const auto* view = hlo::classify(physical, physical->dtype, {cell.type->dims, strides, 0}, starts);
  const Read read{cell.value, physical, view, {starts, static_cast<size_t>(view->num_starts)}};
  cell.value = record_call(nullptr, {&read, 1})[0];
}

ValuePtr resized(const ValuePtr& value, const hlo::Type* type) {
  hlo::Call call;
  call.name = "storage.resize";
  call.emit = emit_resized;
  call.operands = {value->type};
  call.results = {type};
  const Read whole{value, value->type, nullptr, {}};
  return record_call(hlo::intern(std::move(call)), {&whole, 1})[0];
}

ValuePtr ready_value(const at::TensorImpl& impl) {
  Frame frame;
  read_tensor(const_cast<at::TensorImpl&>(impl), frame);
  const Read read = read_of(frame, 0);
  ValuePtr value = read.value;
  // Where a view is an identity, the elements are the same in the same order: only the type differs.
  if (value && read.view != nullptr && !read.view->identity) value = record_call(nullptr, {&read, 1})[0];
  if (value) materialize(*value);
  return value;
}

void materialize(runtime::Value& value) {
  refuse_fork();
  if (Recorder* recorder = Recorder::active()) recorder->refuse_value();
  if (value.region() != nullptr) runtime::counters().materializations.fetch_add(1, std::memory_order_relaxed);
  check(runtime::sink(value));
}

Hold::Hold() { ++Region::current().holds; }
Hold::~Hold() { --Region::current().holds; }

}  // namespace tpu::aten
