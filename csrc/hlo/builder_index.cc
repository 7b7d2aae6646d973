// Sorting, gather and scatter.
#include <algorithm>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

// A list of the dimension numbers; an empty one is left out, as MLIR does.
std::string field(std::string_view name, const Dims& v) {
  return v.empty() ? std::string() : text::concat({name, " = ", text::list(v), ", "});
}

// Dims of the indices without the one that holds index vectors.
Dims batch_dims(Value indices, int64_t index_vector_dim) {
  Dims dims = indices.dims();
  if (index_vector_dim < indices.rank()) dims.erase(dims.begin() + index_vector_dim);
  return dims;
}

void check_indices(std::string_view op, const Values& operands, int64_t vector_dim, const Dims& map) {
  const Value indices = operands[1];
  require(is_int(indices.dtype()), op, operands, "indices are not integers");
  require(0 <= vector_dim && vector_dim <= indices.rank(), op, operands, "no such index_vector_dim");
  const int64_t length = vector_dim == indices.rank() ? 1 : indices.dim(vector_dim);
  require(static_cast<int64_t>(map.size()) == length, op, operands, "index vectors and their map differ in length");
}

// The slice's dims that come out, in order.
Dims offset_sizes(std::string_view op, const Values& operands, const GatherDims& dims, const Dims& sizes) {
  const Value x = operands[0];
  require(sizes.size() == x.dims().size(), op, operands, "one slice size a dimension");
  Dims offsets;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t size = sizes[static_cast<size_t>(d)];
    require(0 <= size && size <= x.dim(d), op, operands, text::concat({"no slices of ", text::list(sizes)}));
    if (!contains(dims.collapsed, d) && !contains(dims.operand_batching, d)) {
      offsets.push_back(size);
    } else {
      require(size <= 1, op, operands, "a collapsed slice is larger than 1");
    }
  }
  return offsets;
}

// Offset dims stand at the places named for them, batch dims fill the others.
Dims gather_result(std::string_view op, const Values& operands, const GatherDims& dims, const Dims& sizes) {
  const Dims offsets = offset_sizes(op, operands, dims, sizes);
  const Dims batch = batch_dims(operands[1], dims.index_vector_dim);
  require(offsets.size() == dims.offset.size(), op, operands, "offset dims do not match the slices");
  Dims result;
  size_t next_offset = 0, next_batch = 0;
  for (size_t d = 0; d < offsets.size() + batch.size(); ++d) {
    const bool is_offset = contains(dims.offset, static_cast<int64_t>(d));
    const bool ok = is_offset ? next_offset < offsets.size() : next_batch < batch.size();
    require(ok, op, operands, "offset dims out of range");
    result.push_back(is_offset ? offsets[next_offset++] : batch[next_batch++]);
  }
  return result;
}

std::string numbers(const GatherDims& dims) {
  return text::concat(
      {"#stablehlo.gather<", field("offset_dims", dims.offset), field("collapsed_slice_dims", dims.collapsed),
       field("operand_batching_dims", dims.operand_batching),
       field("start_indices_batching_dims", dims.indices_batching), field("start_index_map", dims.start_index_map),
       "index_vector_dim = ", std::to_string(dims.index_vector_dim), ">"});
}

std::string numbers(const ScatterDims& dims) {
  return text::concat({"#stablehlo.scatter<", field("update_window_dims", dims.update_window),
                       field("inserted_window_dims", dims.inserted_window),
                       field("input_batching_dims", dims.operand_batching),
                       field("scatter_indices_batching_dims", dims.indices_batching),
                       field("scatter_dims_to_operand_dims", dims.scatter_to_operand),
                       "index_vector_dim = ", std::to_string(dims.index_vector_dim), ">"});
}

void check_updates(std::string_view op, const Values& operands, const ScatterDims& dims) {
  const Value x = operands[0], indices = operands[1], updates = operands[2];
  require(x.dtype() == updates.dtype(), op, operands, "the element types differ");
  const size_t dropped = dims.inserted_window.size() + dims.operand_batching.size();
  require(dims.update_window.size() + dropped == x.dims().size(), op, operands, "window dims do not match the operand");
  Dims batch;
  for (int64_t d = 0; d < updates.rank(); ++d) {
    if (!contains(dims.update_window, d)) batch.push_back(updates.dim(d));
  }
  const bool same = batch == batch_dims(indices, dims.index_vector_dim);
  require(same, op, operands, "updates and indices differ in their batch dims");
}

}  // namespace

Values Builder::sort(const Values& x, int64_t dim, bool stable, const Body& less) {
  constexpr std::string_view op = "stablehlo.sort";
  require(!x.empty() && 0 <= dim && dim < x[0].rank(), op, x, "no such dimension");
  std::vector<Type> arguments;
  for (const Value& v : x) {
    require(v.dims() == x[0].dims(), op, x, "the dims differ");
    arguments.insert(arguments.end(), 2, {v.dtype(), {}});
  }
  const Written written = write({arguments, less});
  require(written.returns == std::vector<Type>{{DType::kBool, {}}}, op, x, "the comparison returns no bool");
  const std::string attributes =
      text::concat({"dimension = ", std::to_string(dim), " : i64, is_stable = ", text::boolean(stable)});
  return generic(op, x, attributes, {written}, types_of(x));
}

Value Builder::gather(Value x, Value indices, const GatherDims& dims, const Dims& slice_sizes, bool sorted) {
  constexpr std::string_view op = "stablehlo.gather";
  const Values operands = {x, indices};
  check_indices(op, operands, dims.index_vector_dim, dims.start_index_map);
  const Type result{x.dtype(), gather_result(op, operands, dims, slice_sizes)};
  if (slice_sizes == x.dims() && dims.operand_batching.empty()) {
    // All of it each time, whatever the index, which is clamped. A compiler of ours ends the process where such a
    // gather is of a constant and under a reduce_window.
    return broadcast_in_dim(squeeze(x, dims.collapsed), result.dims, dims.offset);
  }
  const std::string attributes =
      text::concat({"dimension_numbers = ", numbers(dims), ", slice_sizes = ", text::array(slice_sizes),
                    ", indices_are_sorted = ", text::boolean(sorted)});
  return generic(op, operands, attributes, {}, {result})[0];
}

Value Builder::scatter(Value x, Value indices, Value updates, const ScatterDims& dims, const Body& body, bool unique,
                       bool sorted) {
  constexpr std::string_view op = "stablehlo.scatter";
  // Where there is one index only, the compiler makes an update of a slice of it, which on CPUs goes through all of x.
  // So there is another, which is out of bounds.
  const bool one = dims.index_vector_dim == 1 && (indices.rank() == 1 || indices.rank() == 2) && indices.dim(0) == 1 &&
                   dims.operand_batching.empty();
  if (for_cpu_ && one && is_small_part(updates, x)) {
    const auto longer = [&](Value v, int64_t dim, Value by) {
      Dims none(v.dims().size(), 0), end = none;
      end[static_cast<size_t>(dim)] = 1;
      return pad(v, by, none, end);
    };
    int64_t dim = 0;
    while (std::ranges::count(dims.update_window, dim) > 0) ++dim;
    indices = longer(indices, 0, scalar_int(-1, indices.dtype()));
    updates = longer(updates, dim, scalar(0, updates.dtype()));
  }
  const Values operands = {x, indices, updates};
  check_indices(op, operands, dims.index_vector_dim, dims.scatter_to_operand);
  check_updates(op, operands, dims);
  const std::vector<Type> element = {{x.dtype(), {}}};
  const Written written = write({{element[0], element[0]}, body});
  require(written.returns == element, op, operands, "the body returns another type");
  const std::string attributes =
      text::concat({"scatter_dimension_numbers = ", numbers(dims), ", indices_are_sorted = ", text::boolean(sorted),
                    ", unique_indices = ", text::boolean(unique)});
  return generic(op, operands, attributes, {written}, {*x.type})[0];
}

}  // namespace tpu::hlo
