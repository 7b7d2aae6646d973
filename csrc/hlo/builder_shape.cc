// Operations that move elements and compute none.
#include <algorithm>
#include <numeric>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

bool valid_dims(const Dims& dims, int64_t rank) {  // each a dimension, none twice
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (int64_t d : dims) {
    if (d < 0 || d >= rank || seen[static_cast<size_t>(d)]) return false;
    seen[static_cast<size_t>(d)] = true;
  }
  return true;
}

bool is_identity(const Dims& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool all_zero(const Dims& v) {
  return std::ranges::all_of(v, [](int64_t x) { return x == 0; });
}

void check_starts(std::string_view op, const Values& operands, const Values& starts) {
  require(static_cast<int64_t>(starts.size()) == operands[0].rank(), op, operands, "one start a dimension");
  for (const Value& s : starts) {
    const bool ok = s.rank() == 0 && is_int(s.dtype()) && s.dtype() == starts[0].dtype();
    require(ok, op, starts, "starts are not integers of rank 0 and one type");
  }
}

}  // namespace

namespace {
bool same_but_ones(const Dims& a, const Dims& b) {
  const auto without = [](Dims dims) {
    std::erase(dims, 1);
    return dims;
  };
  return without(a) == without(b);
}
}  // namespace

Value Builder::reshape(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  const Type result{x.dtype(), dims};
  const bool ok = result.numel() == x.numel() && std::ranges::all_of(dims, [](int64_t d) { return d >= 0; });
  require(ok, "stablehlo.reshape", {x}, text::concat({"cannot be ", result.str()}));
  ++reshapes_;
  if (for_cpu_ && loop_of(x).spreads && !same_but_ones(x.dims(), dims)) x = optimization_barrier({x})[0];
  const Value made = call("stablehlo.reshape", {x}, "", result);
  loops_[made.id] = loop_of(x);
  return made;
}

Value Builder::transpose(Value x, const Dims& permutation) {
  constexpr std::string_view op = "stablehlo.transpose";
  const bool ok = static_cast<int64_t>(permutation.size()) == x.rank() && valid_dims(permutation, x.rank());
  require(ok, op, {x}, text::concat({"no permutation: ", text::list(permutation)}));
  if (is_identity(permutation)) return x;
  Dims dims;
  for (int64_t d : permutation) dims.push_back(x.dim(d));
  const Value result = call(op, {x}, text::concat({", dims = ", text::list(permutation)}), {x.dtype(), dims});
  transposes_[result.id] = {x, permutation};
  return result;
}

bool Builder::is_transpose(Value x, Value result) const {
  if (transposes_.size() != 1 || 1 + reshapes_ != ops_ || result.id + 1 != next_id_) return false;
  const Dims& dims = transposes_.begin()->second.source.dims();
  return x.dims() == dims && result.rank() == x.rank() && std::ranges::none_of(dims, [](int64_t d) { return d == 1; });
}

Value Builder::broadcast_in_dim(Value x, const Dims& dims, const Dims& mapping) {
  constexpr std::string_view op = "stablehlo.broadcast_in_dim";
  if (x.dims() == dims && is_identity(mapping)) return x;
  const Type result{x.dtype(), dims};
  bool ok = static_cast<int64_t>(mapping.size()) == x.rank() && valid_dims(mapping, result.rank());
  for (size_t i = 0; ok && i < mapping.size(); ++i) {
    ok = x.dims()[i] == 1 || x.dims()[i] == dims[static_cast<size_t>(mapping[i])];
  }
  require(ok, op, {x}, text::concat({"cannot be ", result.str(), " by ", text::list(mapping)}));
  const Value made = call(op, {x}, text::concat({", dims = ", text::list(mapping)}), result);
  spread_[made.id] = elements_of(x);
  loops_[made.id] = loop_of(x);
  if (x.numel() != made.numel()) {
    loops_[made.id].overwrites = 0;
    loops_[made.id].spreads |= x.numel() > 1;
  }
  return made;
}

Value Builder::broadcast_to(Value x, const Dims& dims) {
  const int64_t added = static_cast<int64_t>(dims.size()) - x.rank();
  require(added >= 0, "broadcast_to", {x}, text::concat({"cannot be ", Type{x.dtype(), dims}.str()}));
  Dims mapping(static_cast<size_t>(x.rank()));
  std::iota(mapping.begin(), mapping.end(), added);
  return broadcast_in_dim(x, dims, mapping);
}

Value Builder::expand_dims(Value x, const Dims& at) {
  Dims dims = x.dims();
  for (int64_t d : at) {
    require(d >= 0 && d <= static_cast<int64_t>(dims.size()), "expand_dims", {x}, text::list(at));
    dims.insert(dims.begin() + d, 1);
  }
  return reshape(x, dims);
}

Value Builder::squeeze(Value x, const Dims& at) {
  require(valid_dims(at, x.rank()), "squeeze", {x}, text::list(at));
  Dims dims;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (!contains(at, d)) dims.push_back(x.dim(d));
  }
  return reshape(x, dims);
}

Value Builder::slice(Value x, const Dims& start, const Dims& limit, const Dims& stride) {
  constexpr std::string_view op = "stablehlo.slice";
  const Dims step = stride.empty() ? Dims(start.size(), 1) : stride;
  const size_t rank = x.dims().size();
  require(start.size() == rank && limit.size() == rank && step.size() == rank, op, {x}, "one entry a dimension");
  std::string ranges;
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    const std::string range = text::concat({std::to_string(start[i]), ":", std::to_string(limit[i])});
    const bool ok = 0 <= start[i] && start[i] <= limit[i] && limit[i] <= x.dims()[i] && step[i] > 0;
    require(ok, op, {x}, text::concat({"dimension ", std::to_string(i), " has no ", range}));
    dims.push_back((limit[i] - start[i] + step[i] - 1) / step[i]);
    ranges += (i ? ", " : "") + range + (step[i] == 1 ? "" : ":" + std::to_string(step[i]));
  }
  if (dims == x.dims()) return x;
  return call(op, {x}, text::concat({" [", ranges, "]"}), {x.dtype(), dims});
}

Value Builder::slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  require(valid_dims({dim}, x.rank()), "slice_dim", {x}, text::list({dim}));
  Dims starts(x.dims().size(), 0), limits = x.dims(), strides(x.dims().size(), 1);
  const auto d = static_cast<size_t>(dim);
  starts[d] = start, limits[d] = limit, strides[d] = stride;
  return slice(x, starts, limits, strides);
}

Value Builder::dynamic_slice(Value x, const Values& starts, const Dims& sizes) {
  constexpr std::string_view op = "stablehlo.dynamic_slice";
  check_starts(op, {x}, starts);
  bool ok = sizes.size() == x.dims().size();
  for (size_t i = 0; ok && i < sizes.size(); ++i) ok = 0 <= sizes[i] && sizes[i] <= x.dims()[i];
  require(ok, op, {x}, text::concat({"has no slice of ", text::list(sizes)}));
  if (sizes == x.dims()) return x;  // starts are clamped, here to 0
  return call(op, joined({x}, starts), text::concat({", sizes = ", text::list(sizes)}), {x.dtype(), sizes});
}

Value Builder::dynamic_update_slice(Value x, Value update, const Values& starts) {
  constexpr std::string_view op = "stablehlo.dynamic_update_slice";
  check_starts(op, {x, update}, starts);
  bool ok = x.dtype() == update.dtype() && x.rank() == update.rank();
  for (int64_t i = 0; ok && i < x.rank(); ++i) ok = update.dim(i) <= x.dim(i);
  require(ok, op, {x, update}, "the update does not fit");
  if (update.dims() == x.dims()) return update;
  return call(op, joined({x, update}, starts), "", *x.type);
}

Value Builder::overwrite(Value x, Value update, const Values& starts) {
  if (update.dims() == x.dims()) return update;
  if (!for_cpu_ || !is_small_part(update, x)) {
    const Value apart = optimization_barrier({x})[0];
    return optimization_barrier({dynamic_update_slice(apart, update, starts)})[0];
  }
  // The CPU's compiler goes through all of x for a slice of it, but not for a scatter.
  Values index;
  Dims whole(x.dims().size()), one{1};
  std::iota(whole.begin(), whole.end(), 0);
  for (const int64_t d : whole) {
    const auto at = static_cast<size_t>(d);
    const Value last = scalar_int(x.dim(d) - update.dim(d), starts[at].dtype());
    index.push_back(reshape(clamp(scalar_int(0, starts[at].dtype()), starts[at], last), {1, 1}));
    one.push_back(update.dim(d));
  }
  ScatterDims dims{.scatter_to_operand = whole, .index_vector_dim = 1};
  for (const int64_t d : whole) dims.update_window.push_back(d + 1);
  return scatter(x, concat(index, 1), reshape(update, one), dims, [](const Values& v) { return Values{v[1]}; });
}

bool Builder::is_small_part(Value part, Value x) {
  constexpr int64_t kLargeBytes = int64_t{32} << 10;
  return x.type->bytes() >= kLargeBytes && part.numel() * 8 <= x.numel();
}

Value Builder::pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior) {
  constexpr std::string_view op = "stablehlo.pad";
  const Dims between = interior.empty() ? Dims(low.size(), 0) : interior;
  const size_t rank = x.dims().size();
  require(value.rank() == 0 && value.dtype() == x.dtype(), op, {x, value}, "the padding value has another type");
  require(low.size() == rank && high.size() == rank && between.size() == rank, op, {x}, "one entry a dimension");
  if (all_zero(low) && all_zero(high) && all_zero(between)) return x;
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    dims.push_back(low[i] + high[i] + x.dims()[i] + std::max<int64_t>(x.dims()[i] - 1, 0) * between[i]);
    require(between[i] >= 0 && dims[i] >= 0, op, {x}, "a negative size");
  }
  const std::string details =
      text::concat({", low = ", text::list(low), ", high = ", text::list(high), ", interior = ", text::list(between)});
  return call(op, {x, value}, details, {x.dtype(), dims});
}

Value Builder::concat(const Values& parts, int64_t dim) {
  constexpr std::string_view op = "stablehlo.concatenate";
  require(!parts.empty(), op, parts, "no operands");
  require(valid_dims({dim}, parts[0].rank()), op, parts, "no such dimension");
  if (parts.size() == 1) return parts[0];
  Type result = *parts[0].type;
  int64_t& size = result.dims[static_cast<size_t>(dim)];
  size = 0;
  for (const Value& part : parts) {
    require(part.rank() == result.rank() && part.dtype() == result.dtype, op, parts, "the types differ");
    size += part.dim(dim);
    for (int64_t d = 0; d < result.rank(); ++d) {
      require(d == dim || part.dim(d) == parts[0].dim(d), op, parts, "the other dims differ");
    }
  }
  constexpr size_t kMany = 256;  // parts; a longer list is joined in several steps
  Values all;
  for (const Value& part : parts) {
    const auto inner = joins_.find(part.id);
    const bool splices = blocks_.size() == 1 && inner != joins_.end() && inner->second.dim == dim &&
                         all.size() + inner->second.parts.size() + parts.size() <= kMany;
    if (splices) {
      all.insert(all.end(), inner->second.parts.begin(), inner->second.parts.end());
      spliced_ = true;
    } else {
      all.push_back(part);
    }
  }
  const size_t begin = blocks_.back().body.size();
  const Value joined = call(op, all, text::concat({", dim = ", std::to_string(dim)}), result);
  if (blocks_.size() == 1) joins_[joined.id] = {std::move(all), dim, begin, blocks_.back().body.size()};
  return joined;
}

Value Builder::reverse(Value x, const Dims& dims) {
  require(valid_dims(dims, x.rank()), "stablehlo.reverse", {x}, text::list(dims));
  if (dims.empty()) return x;
  return uniform("stablehlo.reverse", {x}, text::concat({", dims = ", text::list(dims)}));
}

Value Builder::iota(DType dtype, const Dims& dims, int64_t dim) {
  const Type result{dtype, dims};
  const std::string op = "stablehlo.iota dim = " + std::to_string(dim);
  require(valid_dims({dim}, result.rank()), op, {}, text::concat({"no such dimension of ", result.str()}));
  if (dtype == DType::kBool) return convert(iota(DType::kS32, dims, dim), dtype);
  if (is_complex(dtype)) return convert(iota(real_of(dtype), dims, dim), dtype);
  if (size_of(dtype) == 1 && is_float(dtype)) return convert(iota(DType::kF32, dims, dim), dtype);
  const Value made = line(result, text::concat({op, " : ", result.str()}));
  loops_[made.id] = {};  // reads nothing
  return made;
}

}  // namespace tpu::hlo
