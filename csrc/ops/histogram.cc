// Histograms over bins of one or several dimensions.
#include "ops/families.h"
#include "ops/reducing.h"
#include "ops/refusing.h"
#include "ops/search.h"
#include "ops/spacing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;
using Range = optional<std::vector<double>>;

// Points as rows: [points, dimensions].
Value points(Builder& b, Value x) {
  const int64_t width = x.rank() < 2 ? 1 : x.dim(-1);
  return b.reshape(x, {width == 0 ? 0 : x.numel() / width, width});
}

// Between the ends that are given, else between the least and the greatest element.
Value edges(Builder& b, Value column, int64_t bins, const Range& range, size_t dimension) {
  const DType dtype = column.dtype();
  Value low = b.scalar(0, dtype), high = b.scalar(1, dtype);
  if (range) {
    low = b.scalar((*range)[2 * dimension], dtype), high = b.scalar((*range)[2 * dimension + 1], dtype);
  } else if (column.numel() > 0) {
    low = b.reduce(Reduce::kMin, column, {0}), high = b.reduce(Reduce::kMax, column, {0});
  }
  const Value flat = b.eq(low, high), half = b.scalar(0.5, dtype);
  low = b.select(flat, b.sub(low, half), low), high = b.select(flat, b.add(high, half), high);
  return spaced(b, low, high, bins + 1, dtype);
}

Values all_edges(Builder& b, Value x, const Dims& bins, const Range& range) {
  x = points(b, x);
  Values out;
  for (size_t d = 0; d < bins.size(); ++d) {
    const auto at = static_cast<int64_t>(d);
    const Value column = b.reshape(b.slice_dim(x, 1, at, at + 1), {x.dim(0)});
    out.push_back(edges(b, column, bins[d], range, d));
  }
  return out;
}

// The last bin has both of its ends. What lies outside is written beyond the end: dropped.
Value count(Builder& b, Value x, const Values& edges, const optional<Raw>& weight, bool density) {
  const DType dtype = x.dtype();
  x = points(b, x);
  Dims sizes;
  int64_t all = 1;
  for (const Value& e : edges) sizes.push_back(e.dim(0) - 1), all *= e.dim(0) - 1;
  if (all == 0) return b.zeros({dtype, sizes});
  const auto number = [](Builder& to, int64_t v) { return to.scalar_int(v, DType::kS32); };
  Value place = b.zeros({DType::kS32, {x.dim(0)}}), inside = b.full(1, DType::kBool, {x.dim(0)});
  for (size_t d = 0; d < edges.size(); ++d) {
    const auto at = static_cast<int64_t>(d);
    const Value v = b.reshape(b.slice_dim(x, 1, at, at + 1), {x.dim(0)});
    const auto end = [&](int64_t i) { return b.reshape(b.slice_dim(edges[d], 0, i, i + 1), {}); };
    inside = b.and_(inside, b.and_(b.ge(v, end(0)), b.le(v, end(sizes[d]))));
    const Value bin = b.min(b.sub(search(b, edges[d], v, true), number(b, 1)), number(b, sizes[d] - 1));
    place = b.add(b.mul(place, number(b, sizes[d])), bin);
  }
  place = b.select(inside, place, number(b, all));
  const Value each = weight ? b.flatten(b.convert(*weight, dtype)) : b.full(1, dtype, {x.dim(0)});
  Value counts = b.scatter(b.zeros({dtype, {all}}), b.reshape(place, {x.dim(0), 1}), each,
                           {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1},
                           [&](const Values& v) { return Values{b.add(v[0], v[1])}; });
  counts = b.reshape(counts, sizes);
  if (!density) return counts;
  counts = b.div(counts, b.reduce(Reduce::kAdd, counts, all_dims(counts)));
  for (size_t d = 0; d < edges.size(); ++d) {
    const Value widths = b.sub(b.slice_dim(edges[d], 0, 1, sizes[d] + 1), b.slice_dim(edges[d], 0, 0, sizes[d]));
    counts = b.div(counts, b.broadcast_in_dim(widths, sizes, {static_cast<int64_t>(d)}));
  }
  return counts;
}

// PyTorch has no meta functions for any of these.
std::vector<Type> of_one(const Call& call) {
  const int64_t bins = std::get<int64_t>(call.attributes[1]);
  const DType dtype = call.operands[0]->dtype;
  return {{dtype, {bins}}, {dtype, {bins + 1}}};
}
std::vector<Type> of_given(const Call& call) {
  const Type& bins = *call.operands[1];
  return {{call.operands[0]->dtype, {bins.dims.at(0) - 1}}, bins};
}
std::vector<Type> edges_of_many(const Call& call) {
  std::vector<Type> types;
  for (const int64_t n : std::get<Dims>(call.attributes[1])) types.push_back({call.operands[0]->dtype, {n + 1}});
  return types;
}
std::vector<Type> of_many(const Call& call) { return {{call.operands[0]->dtype, std::get<Dims>(call.attributes[1])}}; }
std::vector<Type> of_many_given(const Call& call) {
  const Type& x = *call.operands[0];
  Dims sizes;
  for (size_t d = 1; d <= static_cast<size_t>(x.dims.back()); ++d) sizes.push_back(call.operands[d]->dims.at(0) - 1);
  return {{x.dtype, sizes}};
}

Status refuse(const Call& call) {
  const DType dtype = call.operands[0]->dtype;
  return is_float(dtype) ? Status() : not_implemented("histogramdd", dtype);
}
Status refuse_one(const Call& call) {
  const auto* bins = std::get_if<int64_t>(&call.attributes[1]);
  if (bins != nullptr && *bins <= 0)
    return invalid("torch.histogram(): bins must be > 0, but got " + std::to_string(*bins));
  return refuse(call);
}
Status refuse_many(const Call& call) {
  const Type& x = *call.operands[0];
  if (x.rank() < 2) return invalid("torch.histogramdd: input tensor should have at least 2 dimensions");
  if (const auto* bins = std::get_if<Dims>(&call.attributes[1]);
      bins != nullptr && static_cast<int64_t>(bins->size()) != x.dims.back()) {
    return invalid("torch.histogramdd: expected " + std::to_string(x.dims.back()) +
                   " sequences of bin edges or bin counts, but got " + std::to_string(bins->size()));
  }
  return refuse(call);
}

}  // namespace

void add_histogram(Table& ops) {
  ops.add("histogram.bin_ct", plain,
          [](Builder& b, Value x, int64_t bins, Range range, optional<Raw> weight, bool density) -> Values {
            const Value flat = b.flatten(x), at = edges(b, flat, bins, range, 0);
            return {count(b, flat, {at}, weight, density), at};
          })
      .refuses(refuse_one)
      .results(of_one);
  ops.add("histogram.bins_tensor", plain,
          [](Builder& b, Value x, Value bins, optional<Raw> weight, bool density) -> Values {
            return {count(b, b.flatten(x), {b.convert(bins, x.dtype())}, weight, density), bins};
          })
      .refuses(refuse_one)
      .results(of_given);
  ops.add("_histogramdd_bin_edges", plain,
          [](Builder& b, Value x, Dims bins, Range range, optional<Raw>, bool) { return all_edges(b, x, bins, range); })
      .refuses(refuse_many)
      .results(edges_of_many);
  ops.add("_histogramdd_from_bin_cts", plain,
          [](Builder& b, Value x, Dims bins, Range range, optional<Raw> weight, bool density) {
            return count(b, x, all_edges(b, x, bins, range), weight, density);
          })
      .refuses(refuse_many)
      .results(of_many);
  ops.add("_histogramdd_from_bin_tensors", plain,
          [](Builder& b, Value x, Values bins, optional<Raw> weight, bool density) {
            return count(b, x, bins, weight, density);
          })
      .refuses(refuse_many)
      .results(of_many_given);
}

}  // namespace tpu::ops
