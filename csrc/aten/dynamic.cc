#include "aten/dynamic.h"

#include <ATen/native/Resize.h>

#include <bit>

#include "aten/copy.h"
#include "aten/dtype.h"
#include "aten/engine.h"
#include "aten/record.h"
#include "ops/dynamic.h"

namespace tpu::aten {
namespace {

using Tensors = std::vector<at::Tensor>;

const hlo::Type* type_of(at::ScalarType dtype, at::IntArrayRef sizes) {
  return hlo::intern({to_dtype(dtype), sizes.vec()});
}

Tensors compute(std::string_view name, hlo::Emit emit, const Tensors& operands, std::vector<const hlo::Type*> results,
                std::vector<hlo::Attr> attributes = {}) {
  hlo::Call call;
  call.name = name;
  call.emit = emit;
  call.results = std::move(results);
  call.attributes = std::move(attributes);
  return record(std::move(call), operands);
}

int64_t next_power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

// The first `count` of `all`. Where that is little, memory of the next power of two holds it: few sizes of copies, and
// less than half of it unused.
at::Tensor first(const at::Tensor& all, int64_t count) {
  const int64_t n = all.size(0), held = next_power_of_two(count);
  if (count == n) return all;
  const at::Tensor kept = held <= n / 2 ? all.narrow(0, 0, held).clone() : all;
  return kept.narrow(0, 0, count);
}

at::Tensor column_major(const at::Tensor& x) {
  const at::Tensor to = empty({x.numel()}, x.scalar_type(), std::nullopt).as_strided(x.sizes(), {1, x.size(0)});
  return to.copy_(x);
}

// As on other devices, the coordinates of one dimension lie next to each other.
at::Tensor nonzero(const at::Tensor& self) {
  if (self.numel() == 0) return column_major(empty({0, self.dim()}, at::kLong, std::nullopt));
  const auto found = compute("nonzero", &ops::emit_nonzero, {self},
                             {type_of(at::kLong, {}), type_of(at::kLong, {self.numel(), self.dim()})});
  return column_major(first(found[1], found[0].item<int64_t>()));
}

// The slices of x at the set places of a mask over its leading dims.
at::Tensor masked(const at::Tensor& x, const at::Tensor& mask) {
  std::vector<int64_t> sizes{mask.numel()};
  for (int64_t d = mask.dim(); d < x.dim(); ++d) sizes.push_back(x.size(d));
  if (x.numel() == 0 && mask.numel() == 0) return empty(sizes, x.scalar_type(), std::nullopt);
  const auto found =
      compute("masked", &ops::emit_masked, {x, mask}, {type_of(at::kLong, {}), type_of(x.scalar_type(), sizes)});
  return first(found[1], found[0].item<int64_t>());
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const auto sizes = at::infer_size(self.sizes(), mask.sizes());
  const auto on_device = [&](const at::Tensor& t) { return t.is_cpu() && t.dim() == 0 ? upload(t) : t; };
  return masked(on_device(self).expand(sizes), on_device(mask).expand(sizes));
}

at::Tensor& give(at::Tensor result, at::Tensor& out) {
  TORCH_CHECK(result.scalar_type() == out.scalar_type(), "Expected object of scalar type ", result.scalar_type(),
              " but got scalar type ", out.scalar_type(), " for argument 'out'");
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) { return give(aten::nonzero(self), out); }
at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  return give(aten::masked_select(self, mask), out);
}

// --- unique -------------------------------------------------------------------------------------------------------
using Unique = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Of slices along dimension 0.
Unique unique_slices(const at::Tensor& x, bool together, bool inverse, bool counts) {
  TORCH_CHECK_NOT_IMPLEMENTED(!x.is_complex(), "\"unique\" not implemented for '", x.scalar_type(), "'");
  const int64_t n = x.size(0);
  const hlo::Type* numbers = type_of(at::kLong, {n});
  const auto found =
      compute("unique", &ops::emit_unique, {x},
              {type_of(at::kLong, {}), type_of(x.scalar_type(), x.sizes()), numbers, numbers}, {together});
  const auto none = [&] { return empty({0}, at::kLong, std::nullopt); };
  const int64_t count = found[0].item<int64_t>();
  return {first(found[1], count), inverse ? found[2] : none(), counts ? first(found[3], count) : none()};
}

Unique unique_flat(const at::Tensor& self, bool together, bool inverse, bool counts) {
  if (self.numel() == 0) {
    const auto none = [&] { return empty({0}, at::kLong, std::nullopt); };
    return {empty({0}, self.scalar_type(), std::nullopt),
            inverse ? empty(self.sizes(), at::kLong, std::nullopt) : none(), none()};
  }
  auto [values, which, count] = unique_slices(self.reshape({-1}), together, inverse, counts);
  return {values, inverse ? which.view(self.sizes()) : which, count};
}

Unique unique_along(const at::Tensor& self, int64_t dim, bool together, bool inverse, bool counts) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (self.numel() == 0) {
    const int64_t zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
    TORCH_CHECK(self.size(dim) == 0 && zeros == 1,
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    const auto none = [&] { return empty({0}, at::kLong, std::nullopt); };
    return {empty(self.sizes(), self.scalar_type(), std::nullopt), none(), none()};
  }
  auto [values, which, count] = unique_slices(self.movedim(dim, 0), together, inverse, counts);
  return {values.movedim(0, dim), which, count};
}

Unique unique2(const at::Tensor& self, bool, bool inverse, bool counts) {
  return unique_flat(self, false, inverse, counts);
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool, bool inverse) {
  auto [values, which, count] = unique_flat(self, false, inverse, false);
  return {values, which};
}

Unique unique_consecutive(const at::Tensor& self, bool inverse, bool counts, std::optional<int64_t> dim) {
  if (dim && self.dim() > 0) return unique_along(self, *dim, true, inverse, counts);
  return unique_flat(self, true, inverse, counts);
}

Unique unique_dim(const at::Tensor& self, int64_t dim, bool, bool inverse, bool counts) {
  return unique_along(self, dim, false, inverse, counts);
}

Unique unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool inverse, bool counts) {
  return unique_along(self, dim, true, inverse, counts);
}

// --- sinks --------------------------------------------------------------------------------------------------------
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Expected all tensors to be on the same device, but found at least two ",
              "devices, ", self.device(), " and ", other.device(), "!");
  return self.sizes() == other.sizes() && at::all(at::eq(self, other)).item<bool>();
}

// --- counts -------------------------------------------------------------------------------------------------------
std::pair<int64_t, int64_t> two_numbers(const char* name, hlo::Emit emit, const at::Tensor& x) {
  const at::Tensor found = download(compute(name, emit, {x}, {type_of(at::kLong, {2})})[0]);
  return {found.const_data_ptr<int64_t>()[0], found.const_data_ptr<int64_t>()[1]};
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return empty({0}, repeats.scalar_type(), std::nullopt);
  int64_t total = output_size.value_or(0);
  if (!output_size) {
    int64_t least = 0;
    std::tie(least, total) = two_numbers("repeats", &ops::emit_least_and_sum, repeats);
    TORCH_CHECK(least >= 0, "repeats can not be negative");
  }
  const int64_t held = output_size ? total : next_power_of_two(total);
  return compute("repeat_interleave", &ops::emit_repeated, {repeats}, {type_of(repeats.scalar_type(), {held})})[0]
      .narrow(0, 0, total);
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(self.dim() == 1 && c10::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
              "weights should be 1-d and have the same length as input");
  const at::ScalarType dtype = !weighted ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  if (self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  const auto [least, most] = two_numbers("extent", &ops::emit_least_and_most, self);
  TORCH_CHECK(least >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t size = std::max(most + 1, minlength);
  Tensors operands{self};
  if (weighted) operands.push_back(*weights);
  return compute("bincount", &ops::emit_bincount, operands, {type_of(dtype, {next_power_of_two(size)})})[0].narrow(
      0, 0, size);
}

// --- masks among indices --------------------------------------------------------------------------------------------
bool is_mask(const at::Tensor& t) {
  return t.defined() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte);
}

using Indices = std::vector<std::optional<at::Tensor>>;

Indices indices_of(const c10::IValue& v) {
  Indices list;
  for (const c10::IValue& e : v.toListRef()) {
    list.push_back(e.isNone() || !e.toTensor().defined() ? std::nullopt : std::optional(e.toTensor()));
  }
  return list;
}

bool has_mask(const c10::IValue& v) {
  for (const c10::IValue& e : v.toListRef()) {
    if (!e.isNone() && is_mask(e.toTensor())) return true;
  }
  return false;
}

// The place among the dims of a mask that no other index tensor stands beside.
std::optional<int64_t> lone_mask(const Indices& indices) {
  std::optional<int64_t> at;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (at || !is_mask(*indices[i]) || indices[i]->dim() == 0) return std::nullopt;
    at = static_cast<int64_t>(i);
  }
  return at;
}

void check_mask(const at::Tensor& self, const at::Tensor& mask, int64_t at, int64_t position) {
  TORCH_CHECK_INDEX(at + mask.dim() <= self.dim(), "too many indices for tensor of dimension ", self.dim());
  for (int64_t d = 0; d < mask.dim(); ++d) {
    TORCH_CHECK_INDEX(mask.size(d) == self.size(at + d), "The shape of the mask ", mask.sizes(), " at index ", position,
                      " does not match the shape of the indexed tensor ", self.sizes(), " at index ", at + d);
  }
}

c10::IValue without_masks(const at::Tensor& self, const Indices& indices) {
  c10::List<std::optional<at::Tensor>> list;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i] || !is_mask(*indices[i])) {
      list.push_back(indices[i]);
      continue;
    }
    const at::Tensor& mask = *indices[i];
    check_mask(self, mask, static_cast<int64_t>(list.size()), static_cast<int64_t>(i));
    const at::Tensor places = mask.nonzero();
    for (int64_t d = 0; d < mask.dim(); ++d) list.push_back(places.select(1, d));
  }
  return list;
}

std::string broadcast_error(at::IntArrayRef values, at::IntArrayRef result) {
  return c10::str("shape mismatch: value tensor of shape ", values, " cannot be broadcast to indexing result of shape ",
                  result);
}

// A lone mask stays one: the lowering selects. All that may have to be known is whether the values are as many as the
// mask has places, which is PyTorch's error otherwise.
void check_values(const at::Tensor& self, const at::Tensor& mask, int64_t at, const at::Tensor& values, bool trusted) {
  std::vector<int64_t> result = self.sizes().slice(0, at).vec();
  result.push_back(1);
  for (int64_t d = at + mask.dim(); d < self.dim(); ++d) result.push_back(self.size(d));
  const int64_t place = at - (static_cast<int64_t>(result.size()) - values.dim());
  if (place >= 0 && values.size(place) != 1) {
    result[static_cast<size_t>(at)] =
        trusted ? values.size(place)
                : compute("count", &ops::emit_count, {mask}, {type_of(at::kLong, {})})[0].item<int64_t>();
  }
  TORCH_CHECK(at::is_expandable_to(values.sizes(), result) &&
                  (place < 0 || values.size(place) == 1 || values.size(place) == result[static_cast<size_t>(at)]),
              broadcast_error(values.sizes(), result));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("equal", TORCH_FN(equal));
  m.impl("nonzero", TORCH_FN(nonzero));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("masked_select", TORCH_FN(masked_select));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
  m.impl("_unique", TORCH_FN(unique));
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
  m.impl("unique_dim", TORCH_FN(unique_dim));
  m.impl("unique_dim_consecutive", TORCH_FN(unique_dim_consecutive));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
  m.impl("bincount", TORCH_FN(bincount));
}

}  // namespace

void run_index(const Overload& overload, torch::jit::Stack* stack) {
  const size_t n = overload.args.size();
  c10::IValue& argument = torch::jit::peek(*stack, 1, n);
  if (has_mask(argument)) {
    const at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
    const Indices indices = indices_of(argument);
    if (overload.kind == Overload::kFunctional && lone_mask(indices) == 0) {
      const at::Tensor& mask = *indices[0];
      check_mask(self, mask, 0, 0);
      at::Tensor result = masked(self, mask.is_cpu() ? upload(mask) : mask);
      torch::jit::drop(*stack, n);
      stack->emplace_back(std::move(result));
      return;
    }
    argument = without_masks(self, indices);
  }
  run(overload, stack);
}

void run_index_put(const Overload& overload, torch::jit::Stack* stack) {
  const size_t n = overload.args.size();
  const at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  const at::Tensor values = torch::jit::peek(*stack, 2, n).toTensor();
  c10::IValue& argument = torch::jit::peek(*stack, 1, n);
  TORCH_CHECK_INDEX(self.scalar_type() == values.scalar_type(),
                    "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
                    " for the destination and ", values.scalar_type(), " for the source.");
  if (has_mask(argument)) {
    Indices indices = indices_of(argument);
    if (const auto at = lone_mask(indices)) {
      at::Tensor& mask = *indices[static_cast<size_t>(*at)];
      check_mask(self, mask, *at, *at);
      if (mask.is_cpu()) mask = upload(mask);
      const bool trusted = overload.row->args.size() == 5 && torch::jit::peek(*stack, 4, n).toBool();
      check_values(self, mask, *at, values, trusted);
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& index : indices) list.push_back(index);
      argument = std::move(list);
    } else {
      argument = without_masks(self, indices);
    }
  }
  run(overload, stack);
}

}  // namespace tpu::aten
