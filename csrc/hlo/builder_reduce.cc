// Reductions, windows and scans.
#include <algorithm>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

Dims or_else(const Dims& v, size_t rank, int64_t otherwise) { return v.empty() ? Dims(rank, otherwise) : v; }

Dims dropped(const Dims& dims, const Dims& drop) {
  Dims kept;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!contains(drop, static_cast<int64_t>(i))) kept.push_back(dims[i]);
  }
  return kept;
}

std::vector<Type> with_dims(const Values& like, const Dims& dims) {
  std::vector<Type> types;
  for (const Value& v : like) types.push_back({v.dtype(), dims});
  return types;
}

Value neutral(Builder& b, Reduce how, DType dtype) {
  switch (how) {
    case Reduce::kAdd: return b.scalar(0, dtype);
    case Reduce::kMul: return b.scalar(1, dtype);
    case Reduce::kMax: return b.lowest(dtype);
    case Reduce::kMin: return b.highest(dtype);
    case Reduce::kAnd: return b.scalar_int(-1, dtype);
    case Reduce::kOr: return b.scalar_int(0, dtype);
  }
  throw BuildError("reduce: no such reduction");
}

}  // namespace

std::string_view reducer(Reduce how, DType dtype) {
  const bool is_bool = dtype == DType::kBool;
  switch (how) {
    case Reduce::kAdd: return is_bool ? "stablehlo.or" : "stablehlo.add";
    case Reduce::kMul: return is_bool ? "stablehlo.and" : "stablehlo.multiply";
    case Reduce::kMax: return is_bool ? "stablehlo.or" : "stablehlo.maximum";
    case Reduce::kMin: return is_bool ? "stablehlo.and" : "stablehlo.minimum";
    case Reduce::kAnd: return "stablehlo.and";
    case Reduce::kOr: return "stablehlo.or";
  }
  throw BuildError("reduce: no such reduction");
}

Window complete_window(std::string_view op, const Values& operands, const Window& w) {
  const size_t rank = w.size.size();
  Window r{w.size,
           or_else(w.stride, rank, 1),
           or_else(w.lhs_dilation, rank, 1),
           or_else(w.rhs_dilation, rank, 1),
           or_else(w.low, rank, 0),
           or_else(w.high, rank, 0)};
  for (const Dims* v : {&r.stride, &r.lhs_dilation, &r.rhs_dilation, &r.low, &r.high}) {
    require(v->size() == rank, op, operands, "the window's lists differ in length");
  }
  for (const Dims* v : {&r.size, &r.stride, &r.lhs_dilation, &r.rhs_dilation}) {
    require(std::ranges::all_of(*v, [](int64_t x) { return x > 0; }), op, operands, "the window has a size of zero");
  }
  return r;
}

int64_t window_result(int64_t size, const Window& w, size_t i) {
  const int64_t dilated = size == 0 ? 0 : (size - 1) * w.lhs_dilation[i] + 1;
  const int64_t padded = w.low[i] + dilated + w.high[i];
  const int64_t reach = (w.size[i] - 1) * w.rhs_dilation[i] + 1;
  return padded < reach ? 0 : (padded - reach) / w.stride[i] + 1;
}

Value Builder::reduce(Reduce how, Value x, const Dims& dims) {
  if (dims.empty()) return x;
  const std::string_view op = reducer(how, x.dtype());
  return reduce({x}, {neutral(*this, how, x.dtype())}, dims,
                [&](const Values& v) { return Values{binary(op, v[0], v[1])}; })[0];
}

Builder::Written Builder::write_reducer(std::string_view op, const Values& x, const Values& init, const Body& body) {
  require(!x.empty() && x.size() == init.size(), op, x, "one start an operand");
  for (size_t i = 0; i < x.size(); ++i) {
    require(x[i].dims() == x[0].dims(), op, x, "the dims differ");
    require(init[i].rank() == 0 && init[i].dtype() == x[i].dtype(), op, joined(x, init), "a start has another type");
  }
  const std::vector<Type> scalars = with_dims(x, {});
  std::vector<Type> arguments = scalars;
  arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  Written written = write({arguments, body});
  require(written.returns == scalars, op, x, "the body returns other types");
  return written;
}

Values Builder::reduce(const Values& x, const Values& init, const Dims& dims, const Body& body) {
  constexpr std::string_view op = "stablehlo.reduce";
  const Written written = write_reducer(op, x, init, body);
  const Dims kept = dropped(x[0].dims(), dims);
  require(kept.size() + dims.size() == x[0].dims().size(), op, x, text::concat({"no dimensions ", text::list(dims)}));
  return generic(op, joined(x, init), "dimensions = " + text::array(dims), {written}, with_dims(x, kept));
}

Value Builder::reduce_window(Reduce how, Value x, const Window& window) {
  const std::string_view op = reducer(how, x.dtype());
  return reduce_window({x}, {neutral(*this, how, x.dtype())}, window,
                       [&](const Values& v) { return Values{binary(op, v[0], v[1])}; })[0];
}

Values Builder::reduce_window(const Values& x, const Values& init, const Window& window, const Body& body) {
  constexpr std::string_view op = "stablehlo.reduce_window";
  const Window w = complete_window(op, x, window);
  const Written written = write_reducer(op, x, init, body);
  require(w.size.size() == x[0].dims().size(), op, x, "the window has another rank");
  Dims dims;
  for (size_t i = 0; i < w.size.size(); ++i) dims.push_back(window_result(x[0].dims()[i], w, i));
  const std::string attributes = text::concat(
      {"window_dimensions = ", text::array(w.size), ", window_strides = ", text::array(w.stride),
       ", base_dilations = ", text::array(w.lhs_dilation), ", window_dilations = ", text::array(w.rhs_dilation),
       ", padding = ", text::padding(w.low, w.high)});
  return generic(op, joined(x, init), attributes, {written}, with_dims(x, dims));
}

Value Builder::select_and_scatter(Value x, Value source, Value init, const Window& window, Compare how) {
  constexpr std::string_view op = "stablehlo.select_and_scatter";
  const Values operands = {x, source, init};
  const Window w = complete_window(op, operands, window);
  require(w.size.size() == x.dims().size(), op, operands, "the window has another rank");
  const bool same = source.dtype() == x.dtype() && init.dtype() == x.dtype() && init.rank() == 0;
  require(same && source.rank() == x.rank(), op, operands, "the types differ");
  for (size_t i = 0; i < w.size.size(); ++i) {
    require(w.lhs_dilation[i] == 1 && w.rhs_dilation[i] == 1, op, operands, "the window is dilated");
    require(source.dims()[i] == window_result(x.dims()[i], w, i), op, operands, "the source does not fit the window");
  }
  const std::vector<Type> two(2, {x.dtype(), {}});
  const Written chosen = write({two, [&](const Values& v) { return Values{compare(how, v[0], v[1])}; }});
  const Written added = write({two, [&](const Values& v) { return Values{add(v[0], v[1])}; }});
  const std::string attributes =
      text::concat({"window_dimensions = ", text::array(w.size), ", window_strides = ", text::array(w.stride),
                    ", padding = ", text::padding(w.low, w.high)});
  return generic(op, operands, attributes, {chosen, added}, {*x.type})[0];
}

// Scans rows of kBlock elements, then what the rows come to by the same method, and puts what stands before a row in
// front of it. Work grows with n * kBlock, depth with log n. 16 is what CPU (faster below: a window is a loop) and TPU
// (faster above, up to 128; compile time too) can both live with.
Value Builder::cumulative(Reduce how, Value x, int64_t dim) {
  constexpr int64_t kBlock = 16;
  require(0 <= dim && dim < x.rank(), "cumulative", {x}, "no such dimension");
  const int64_t n = x.dim(dim), rows = (n + kBlock - 1) / kBlock;
  if (rows <= 1) return scan_by_window(how, x, dim);

  const auto at = [&](int64_t v) {  // v in this dimension, else 0
    Dims dims(x.dims().size(), 0);
    dims[static_cast<size_t>(dim)] = v;
    return dims;
  };
  Dims whole = x.dims(), blocked = x.dims(), mapping;
  whole[static_cast<size_t>(dim)] = rows * kBlock;
  blocked[static_cast<size_t>(dim)] = rows;
  blocked.insert(blocked.begin() + dim + 1, kBlock);
  for (int64_t d = 0; d < x.rank(); ++d) mapping.push_back(d > dim ? d + 1 : d);

  const Value start = neutral(*this, how, x.dtype());
  const Value padded = pad(x, start, at(0), at(rows * kBlock - n));
  const Value inner = scan_by_window(how, reshape(padded, blocked), dim + 1);
  const Value totals = squeeze(slice_dim(inner, dim + 1, kBlock - 1, kBlock), {dim + 1});
  const Value before = pad(cumulative(how, slice_dim(totals, dim, 0, rows - 1), dim), start, at(1), at(0));
  const Value result = binary(reducer(how, x.dtype()), broadcast_in_dim(before, blocked, mapping), inner);
  return slice_dim(reshape(result, whole), dim, 0, n);
}

Value Builder::scan_by_window(Reduce how, Value x, int64_t dim) {
  if (x.dim(dim) <= 1) return x;
  Window window{.size = Dims(x.dims().size(), 1), .low = Dims(x.dims().size(), 0)};
  window.size[static_cast<size_t>(dim)] = x.dim(dim);
  window.low[static_cast<size_t>(dim)] = x.dim(dim) - 1;
  return reduce_window(how, x, window);
}

}  // namespace tpu::hlo
