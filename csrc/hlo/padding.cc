#include "hlo/padding.h"

#include <algorithm>

namespace tpu::hlo {
namespace {

// Dimensions that stand one after the other without a gap: those up to the next padded one.
struct Group {
  int64_t size = 1;                               // logical
  int64_t logical_place = 1, physical_place = 1;  // of its innermost dimension
};

std::vector<Group> groups_of(const Type& logical, const Type& physical) {
  std::vector<Group> groups{{}};  // innermost first
  int64_t logical_place = 1, physical_place = 1;
  for (size_t d = logical.dims.size(); d-- > 0;) {
    groups.back().size *= logical.dims[d];
    logical_place *= logical.dims[d];
    physical_place *= physical.dims[d];
    if (logical.dims[d] != physical.dims[d]) groups.push_back({1, logical_place, physical_place});
  }
  return groups;
}

Values emit_mask(Builder& b, const Call& call, std::span<const Value> operands) {
  const Value x = operands[0];
  const Dims& dims = std::get<Dims>(call.attributes[0]);
  Value fill;
  switch (static_cast<Fill>(std::get<int64_t>(call.attributes[1]))) {
    case Fill::kAny:
    case Fill::kZero: fill = b.scalar(0, x.dtype()); break;
    case Fill::kOne: fill = b.scalar(1, x.dtype()); break;
    case Fill::kLowest: fill = b.lowest(x.dtype()); break;
    case Fill::kHighest: fill = b.highest(x.dtype()); break;
  }
  Value inside;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Value at = b.lt(b.iota(kSizeDType, {x.dim(dims[i])}, 0), operands[i + 1]);
    const Value spread = b.broadcast_in_dim(at, x.dims(), {dims[i]});
    inside = inside ? b.and_(inside, spread) : spread;
  }
  return {b.select(inside, x, fill)};
}

// `x` as long as `size` along `dim`: cut, or with zeros behind it.
Value with_size(Builder& b, Value x, int64_t dim, int64_t size) {
  if (x.dim(dim) > size) return b.slice_dim(x, dim, 0, size);
  Dims low(x.dims().size(), 0), high = low;
  high[static_cast<size_t>(dim)] = size - x.dim(dim);
  return b.pad(x, b.scalar(0, x.dtype()), low, high);
}

Values emit_cat(Builder& b, const Call& call, std::span<const Value> operands) {
  const Type& result = *call.results[0];
  const int64_t dim = std::get<int64_t>(call.attributes[0]);
  const Dims& padded = std::get<Dims>(call.attributes[1]);
  const size_t count = operands.size() - padded.size();
  const int64_t room = result.dims[static_cast<size_t>(dim)];
  Value joined, end;  // `end`: where the elements end, once that is known at run time only
  size_t next_size = 0;
  for (size_t i = 0; i < count; ++i) {
    const Value part = b.convert(operands[i], result.dtype);
    const bool is_padded = next_size < padded.size() && padded[next_size] == static_cast<int64_t>(i);
    const Value size = is_padded ? operands[count + next_size++] : b.scalar_int(part.dim(dim), kSizeDType);
    if (!end) {
      const int64_t before = joined ? joined.dim(dim) : 0;
      joined = joined ? b.concat({joined, part}, dim) : part;
      if (is_padded) end = b.add(b.scalar_int(before, kSizeDType), size);
      continue;
    }
    // Where all that follows is as long as it says, it fits into the result; a padded part needs room for its padding.
    joined =
        with_size(b, joined, dim, next_size == padded.size() && !is_padded ? room : joined.dim(dim) + part.dim(dim));
    Values starts(joined.dims().size(), b.scalar_int(0, kSizeDType));
    starts[static_cast<size_t>(dim)] = end;
    joined = b.overwrite(joined, part, starts);
    end = b.add(end, size);
  }
  return {with_size(b, joined, dim, room)};
}

}  // namespace

bool place_in_padded(const Type& logical, const Type& physical, const Geometry& geometry, Dims& strides,
                     int64_t& offset) {
  const std::vector<Group> groups = groups_of(logical, physical);
  std::vector<int64_t> reach(groups.size(), 0);  // the last element of each group that is touched
  const auto place = [&](int64_t at, int64_t times) {
    int64_t placed = 0;
    for (size_t g = groups.size(); g-- > 0;) {
      const int64_t digit = at / groups[g].logical_place;
      at -= digit * groups[g].logical_place;
      reach[g] += digit * times;
      placed += digit * groups[g].physical_place;
    }
    return placed;
  };
  const bool empty = std::ranges::find(geometry.sizes, 0) != geometry.sizes.end();
  offset = empty ? 0 : place(geometry.offset, 1);
  strides.clear();
  for (size_t d = 0; d < geometry.sizes.size(); ++d) {
    strides.push_back(place(geometry.strides[d], empty ? 0 : geometry.sizes[d] - 1));
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (reach[g] >= groups[g].size) return false;
  }
  return true;
}

const Call* mask_padding(const Type* type, const Dims& dims, Fill fill) {
  Call call;
  call.name = "view.mask";
  call.emit = emit_mask;
  call.attributes = {dims, static_cast<int64_t>(fill)};
  call.operands = {type};
  call.operands.insert(call.operands.end(), dims.size(), intern(Type{kSizeDType, {}}));
  call.results = {type};
  return intern(std::move(call));
}

const Call* crop_padding(const Type* physical, const Type* logical) {
  Call call;
  call.name = "view.crop";
  call.emit = [](Builder& b, const Call& c, std::span<const Value> operands) {
    const Dims& dims = c.results[0]->dims;
    return b.optimization_barrier({b.slice(operands[0], Dims(dims.size(), 0), dims)});
  };
  call.operands = {physical};
  call.results = {logical};
  return intern(std::move(call));
}

const Call* cat_padded(const std::vector<const Type*>& parts, int64_t dim, const Dims& padded, const Type* result) {
  Call call;
  call.name = "cat.padded";
  call.emit = emit_cat;
  call.attributes = {dim, padded};
  call.operands = parts;
  call.operands.insert(call.operands.end(), padded.size(), intern(Type{kSizeDType, {}}));
  call.results = {result};
  return intern(std::move(call));
}

}  // namespace tpu::hlo
