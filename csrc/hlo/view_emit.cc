#include "hlo/view_emit.h"

#include <algorithm>

namespace tpu::hlo {
namespace {

using Digit = ViewClass::Digit;

constexpr int64_t kGathers = 1, kCovers = 2, kOverlaps = 4;

// The class as attributes (so that it is part of every key) and back.
std::vector<Attr> to_attributes(const ViewClass& view) {
  Dims digits;
  for (const Digit& d : view.digits) digits.insert(digits.end(), {d.place, d.size, d.dim, d.step, d.count});
  const int64_t flags = view.gathers * kGathers | view.covers * kCovers | view.overlaps * kOverlaps;
  return {flags, std::move(digits), view.gathers ? view.strides : Dims{}, int64_t{view.num_starts}};
}

ViewClass from_call(const Call& call, const Type& tensor) {
  ViewClass view;
  const int64_t flags = std::get<int64_t>(call.attributes[0]);
  view.dtype = tensor.dtype;
  view.sizes = tensor.dims;
  view.strides = std::get<Dims>(call.attributes[2]);
  view.gathers = (flags & kGathers) != 0;
  view.covers = (flags & kCovers) != 0;
  view.overlaps = (flags & kOverlaps) != 0;
  const Dims& d = std::get<Dims>(call.attributes[1]);
  for (size_t i = 0; i < d.size(); i += 5) view.digits.push_back({d[i], d[i + 1], d[i + 2], d[i + 3], d[i + 4]});
  return view;
}

Dims map_digits(const ViewClass& view, int64_t (*f)(const Digit&)) {
  Dims out;
  for (const Digit& d : view.digits) out.push_back(f(d));
  return out;
}
Dims digit_sizes(const ViewClass& view) {
  return map_digits(view, [](const Digit& d) { return d.size; });
}
Dims counts(const ViewClass& view) {
  return map_digits(view, [](const Digit& d) { return d.count; });
}
Dims spans(const ViewClass& view) {
  return map_digits(view, [](const Digit& d) { return d.span(); });
}
bool steps(const ViewClass& view) {
  return std::any_of(view.digits.begin(), view.digits.end(), [](const Digit& d) { return d.step > 1 && d.count > 1; });
}
bool slices(const ViewClass& view) {
  return std::any_of(view.digits.begin(), view.digits.end(), [](const Digit& d) { return d.dynamic(); });
}

// One start per digit from the operands, which hold those of the dynamic digits.
Values all_starts(Builder& b, const ViewClass& view, std::span<const Value> given) {
  Values out;
  size_t next = 0;
  const DType dtype = given.empty() ? DType::kS32 : given[0].dtype();
  for (const Digit& d : view.digits) out.push_back(d.dynamic() ? given[next++] : b.scalar(0, dtype));
  return out;
}

// The tensor's moving dimensions in the order of the digits.
Dims dims_by_digit(const ViewClass& view) {
  Dims dims;
  for (const Digit& d : view.digits) {
    if (d.dim >= 0) dims.push_back(d.dim);
  }
  return dims;
}

// Ranks of `dims`, so that transpose(x in digit order, result) has the tensor's order.
Dims order_of(const Dims& dims) {
  Dims order(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
  return order;
}

Dims inverse(const Dims& permutation) {
  Dims out(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) out[permutation[i]] = static_cast<int64_t>(i);
  return out;
}

Value flat_indices(Builder& b, const ViewClass& view, Value offset) {
  Value index = b.broadcast_in_dim(offset, view.sizes, {});
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] <= 1 || view.strides[d] == 0) continue;
    const Value at = b.iota(offset.dtype(), view.sizes, static_cast<int64_t>(d));
    index = b.add(index, b.mul(at, b.scalar_int(view.strides[d], offset.dtype())));
  }
  return b.reshape(index, {index.numel(), 1});
}

Values emit_read(Builder& b, const Call& call, std::span<const Value> operands) {
  const Type& tensor = *call.results[0];
  const ViewClass view = from_call(call, tensor);
  if (tensor.numel() == 0) return {b.zeros(tensor)};
  const Value flat = reinterpret(b, operands[0], view.dtype);
  const auto starts = operands.subspan(1);
  if (view.gathers) {
    const GatherDims dims{.collapsed = {0}, .start_index_map = {0}, .index_vector_dim = 1};
    return {b.reshape(b.gather(flat, flat_indices(b, view, starts[0]), dims, {1}), view.sizes)};
  }
  Value x = b.reshape(flat, digit_sizes(view));
  if (slices(view)) x = b.dynamic_slice(x, all_starts(b, view, starts), spans(view));
  if (steps(view)) {
    x = b.slice(x, Dims(view.digits.size(), 0), spans(view), map_digits(view, [](const Digit& d) { return d.step; }));
  }
  const Dims dims = dims_by_digit(view);
  Dims moving;
  for (int64_t d : dims) moving.push_back(view.sizes[d]);
  const Dims order = order_of(dims);
  x = b.transpose(b.reshape(x, moving), order);
  Dims mapping = dims;
  std::sort(mapping.begin(), mapping.end());
  return {view.overlaps ? b.broadcast_in_dim(x, view.sizes, mapping) : b.reshape(x, view.sizes)};
}

Values emit_write(Builder& b, const Call& call, std::span<const Value> operands) {
  const Type& base = *call.results[0];
  const ViewClass view = from_call(call, *call.operands.end()[-1 - std::get<int64_t>(call.attributes[3])]);
  const Value update = view.covers ? operands[0] : operands[1];
  if (update.numel() == 0) return {operands[0]};
  const auto back = [&](Value x) { return Values{b.reshape(reinterpret(b, x, base.dtype), base.dims)}; };
  const auto starts = operands.subspan(view.covers ? 1 : 2);
  if (view.gathers) {
    const Value flat = reinterpret(b, operands[0], view.dtype);
    const ScatterDims dims{.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1};
    const auto replace = [](const Values& v) { return Values{v[1]}; };
    return back(b.scatter(flat, flat_indices(b, view, starts[0]), b.flatten(update), dims, replace, !view.overlaps));
  }
  // Dimensions that do not move are of size 1, or overlap: then the first element counts.
  const Dims dims = dims_by_digit(view);
  Dims limit = view.sizes, moving;
  for (size_t d = 0; d < limit.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end()) limit[d] = 1;
    if (limit[d] > 1) moving.push_back(limit[d]);
  }
  Value x = b.reshape(b.slice(update, Dims(limit.size(), 0), limit), moving);
  x = b.reshape(b.transpose(x, inverse(order_of(dims))), counts(view));
  if (view.covers) return back(x);
  Value old = b.reshape(reinterpret(b, operands[0], view.dtype), digit_sizes(view));
  const Values at = all_starts(b, view, starts);
  if (steps(view)) {
    const Dims none(view.digits.size(), 0), gaps = map_digits(view, [](const Digit& d) { return d.step - 1; });
    const Value mask = b.pad(b.full(1, DType::kBool, x.dims()), b.scalar(0, DType::kBool), none, none, gaps);
    x = b.select(mask, b.pad(x, b.scalar(0, x.dtype()), none, none, gaps), b.dynamic_slice(old, at, spans(view)));
  }
  return back(slices(view) ? b.overwrite(old, x, at) : x);
}

}  // namespace

Value reinterpret(Builder& b, Value x, DType dtype) {
  if (x.dtype() == dtype) return b.flatten(x);
  if (is_complex(x.dtype())) {
    const DType part = real_of(x.dtype());
    const Value re = b.reshape(b.real(x), {x.numel(), 1}), im = b.reshape(b.imag(x), {x.numel(), 1});
    return reinterpret(b, b.concat({re, im}, 1), dtype == part ? part : dtype);
  }
  if (is_complex(dtype)) {
    const Value parts = reinterpret(b, x, real_of(dtype));
    const Value pairs = b.reshape(parts, {parts.numel() / 2, 2});
    return b.complex(b.flatten(b.slice_dim(pairs, 1, 0, 1)), b.flatten(b.slice_dim(pairs, 1, 1, 2)));
  }
  if (x.dtype() == DType::kBool) return reinterpret(b, b.convert(x, DType::kU8), dtype);
  if (dtype == DType::kBool) return b.convert(reinterpret(b, x, DType::kU8), DType::kBool);
  const int64_t from = size_of(x.dtype()), to = size_of(dtype);
  x = b.flatten(x);
  if (to > from) x = b.reshape(x, {x.numel() * from / to, to / from});
  return b.flatten(b.bitcast(x, dtype));
}

void make_view_calls(ViewClass& view) {
  const Type* tensor = intern(Type{view.dtype, view.sizes});
  const Type* start = intern(Type{view.start_dtype, {}});
  Call read, write;
  read.name = "view.read";
  read.emit = emit_read;
  read.operands = {view.base};
  write.name = "view.write";
  write.emit = emit_write;
  write.operands = view.covers ? std::vector{tensor} : std::vector{view.base, tensor};
  read.attributes = write.attributes = to_attributes(view);
  for (Call* call : {&read, &write}) {
    call->operands.insert(call->operands.end(), static_cast<size_t>(view.num_starts), start);
  }
  read.results = {tensor};
  write.results = {view.base};
  view.read = intern(std::move(read));
  view.write = intern(std::move(write));
}

const Call* undefined(const Type* type) {
  Call call;
  call.name = "view.undefined";
  call.emit = [](Builder& b, const Call& c, std::span<const Value>) { return Values{b.zeros(*c.results[0])}; };
  call.results = {type};
  return intern(std::move(call));
}

}  // namespace tpu::hlo
