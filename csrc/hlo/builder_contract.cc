// Contractions and the dense algebra that StableHLO has.
#include <algorithm>
#include <numeric>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

bool dims_match(Value a, const Dims& of_a, Value b, const Dims& of_b) {
  if (of_a.size() != of_b.size()) return false;
  for (size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i] < 0 || of_a[i] >= a.rank() || of_b[i] < 0 || of_b[i] >= b.rank()) return false;
    if (a.dim(of_a[i]) != b.dim(of_b[i])) return false;
  }
  return true;
}

bool is_square(Value x) { return x.rank() >= 2 && x.dim(-1) == x.dim(-2); }

std::string pairs(const Dims& low, const Dims& high) {
  std::string s;
  for (size_t i = 0; i < low.size(); ++i) s += (i ? ", " : "") + text::list({low[i], high[i]});
  return "[" + s + "]";
}

// [b, f, 0, 1]: the role of each dimension.
std::string roles(int64_t first, std::string_view first_role, int64_t second, std::string_view second_role,
                  const Dims& spatial) {
  std::vector<std::string> roles(spatial.size() + 2);
  const auto set = [&](int64_t dim, std::string_view role) {
    const bool free = 0 <= dim && dim < static_cast<int64_t>(roles.size()) && roles[static_cast<size_t>(dim)].empty();
    require(free, "stablehlo.convolution", {}, "the dimension numbers are no permutation");
    roles[static_cast<size_t>(dim)] = role;
  };
  set(first, first_role);
  set(second, second_role);
  for (size_t i = 0; i < spatial.size(); ++i) set(spatial[i], std::to_string(i));
  std::string s;
  for (const std::string& role : roles) s += (s.empty() ? "" : ", ") + role;
  return "[" + s + "]";
}

std::string numbers(const ConvDims& d) {
  return text::concat({roles(d.input_batch, "b", d.input_feature, "f", d.input_spatial), "x",
                       roles(d.kernel_input_feature, "i", d.kernel_output_feature, "o", d.kernel_spatial), "->",
                       roles(d.output_batch, "b", d.output_feature, "f", d.output_spatial)});
}

// The window, of the kernel's size.
Window kernel_window(std::string_view op, const Values& operands, const Window& given, const ConvDims& dims) {
  const Value x = operands[0], kernel = operands[1];
  const size_t spatial = dims.input_spatial.size();
  const bool ranks = x.rank() == static_cast<int64_t>(spatial) + 2 && kernel.rank() == x.rank() &&
                     dims.kernel_spatial.size() == spatial && dims.output_spatial.size() == spatial;
  require(ranks, op, operands, "ranks and dimension numbers do not fit");
  Dims size;
  for (int64_t d : dims.kernel_spatial) size.push_back(kernel.dim(d));
  require(given.size.empty() || given.size == size, op, operands, "the window has not the kernel's size");
  Window w = given;
  w.size = size;
  return complete_window(op, operands, w);
}

Dims convolution_result(std::string_view op, const Values& operands, const Window& w, const ConvDims& dims,
                        int64_t feature_groups, int64_t batch_groups) {
  const Value x = operands[0], kernel = operands[1];
  const int64_t batch = x.dim(dims.input_batch), outputs = kernel.dim(dims.kernel_output_feature);
  require(feature_groups > 0 && batch_groups > 0, op, operands, "no groups");
  const bool fits = kernel.dim(dims.kernel_input_feature) * feature_groups == x.dim(dims.input_feature);
  require(fits, op, operands, "the kernel takes another number of features");
  const bool divides = outputs % feature_groups == 0 && outputs % batch_groups == 0 && batch % batch_groups == 0;
  require(divides, op, operands, "the groups do not divide the features or the batch");
  Dims result(x.dims().size());
  result[static_cast<size_t>(dims.output_batch)] = batch / batch_groups;
  result[static_cast<size_t>(dims.output_feature)] = outputs;
  for (size_t i = 0; i < w.size.size(); ++i) {
    result[static_cast<size_t>(dims.output_spatial[i])] = window_result(x.dim(dims.input_spatial[i]), w, i);
  }
  return result;
}

}  // namespace

std::string_view Builder::precision() const {
  constexpr std::string_view kNames[] = {"DEFAULT", "HIGH", "HIGHEST"};
  return kNames[static_cast<size_t>(precision_)];
}

namespace {
// Elements of `x` for one of each batch and contracted dimension.
int64_t kept(Value x, const Dims& batch, const Dims& contract) {
  int64_t n = 1;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (!contains(batch, d) && !contains(contract, d)) n *= x.dim(d);
  }
  return n;
}
}  // namespace

// Reads a transposed matrix as it lies. The compiler folds a transpose into a product of matrices, but for a product
// with a vector it writes it out.
void Builder::see_through_transpose(Value& x, Dims& batch, Dims& contract) const {
  const auto found = transposes_.find(x.id);
  if (found == transposes_.end()) return;
  const auto& [source, permutation] = found->second;
  const auto at_source = [&](const Dims& dims) {
    Dims moved;
    for (const int64_t d : dims) moved.push_back(permutation[static_cast<size_t>(d)]);
    return moved;
  };
  Dims rest;  // keep their order in the result
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (!contains(batch, d) && !contains(contract, d)) rest.push_back(permutation[static_cast<size_t>(d)]);
  }
  if (!std::ranges::is_sorted(rest)) return;
  batch = at_source(batch);
  contract = at_source(contract);
  x = source;
}

Value Builder::dot_general(Value a, Value b, Dims batch_a, Dims batch_b, Dims contract_a, Dims contract_b,
                           DType result) {
  constexpr std::string_view op = "stablehlo.dot_general";
  require(dims_match(a, batch_a, b, batch_b), op, {a, b}, "batch dims differ");
  require(dims_match(a, contract_a, b, contract_b), op, {a, b}, "contracted dims differ");
  const bool row = kept(a, batch_a, contract_a) == 1, column = kept(b, batch_b, contract_b) == 1;
  if (column) see_through_transpose(a, batch_a, contract_a);
  if (row) see_through_transpose(b, batch_b, contract_b);
  Type type{result, {}};
  for (int64_t d : batch_a) type.dims.push_back(a.dim(d));
  for (int64_t d = 0; d < a.rank(); ++d) {
    if (!contains(batch_a, d) && !contains(contract_a, d)) type.dims.push_back(a.dim(d));
  }
  for (int64_t d = 0; d < b.rank(); ++d) {
    if (!contains(batch_b, d) && !contains(contract_b, d)) type.dims.push_back(b.dim(d));
  }
  const std::string batching =
      batch_a.empty() ? "" : text::concat({", batching_dims = ", text::list(batch_a), " x ", text::list(batch_b)});
  const std::string contracting =
      text::concat({", contracting_dims = ", text::list(contract_a), " x ", text::list(contract_b)});
  const std::string precise = text::concat({", precision = [", precision(), ", ", precision(), "]"});
  return call(op, {a, b}, batching + contracting + precise, type);
}

Value Builder::matmul(Value a, Value b, DType result) {
  require(a.rank() >= 2 && a.rank() == b.rank(), "matmul", {a, b}, "the operands are not matrices of equal rank");
  const int64_t n = a.rank();
  Dims batch(static_cast<size_t>(n - 2));
  std::iota(batch.begin(), batch.end(), 0);
  return dot_general(a, b, batch, batch, {n - 1}, {n - 2}, result);
}

Value Builder::convolution(Value x, Value kernel, const Window& window, const ConvDims& dims, int64_t feature_groups,
                           int64_t batch_groups, DType result) {
  constexpr std::string_view op = "stablehlo.convolution";
  const Values operands = {x, kernel};
  require_values(op, operands);
  const std::string roles = numbers(dims);  // first: the rest relies on these being permutations
  const Window w = kernel_window(op, operands, window, dims);
  const Type type{result, convolution_result(op, operands, w, dims, feature_groups, batch_groups)};
  const std::string precise = text::concat({"#stablehlo<precision ", precision(), ">"});
  return line(type, text::concat({op,
                                  "(",
                                  text::names(operands),
                                  ") dim_numbers = ",
                                  roles,
                                  ", window = {stride = ",
                                  text::list(w.stride),
                                  ", pad = ",
                                  pairs(w.low, w.high),
                                  ", lhs_dilate = ",
                                  text::list(w.lhs_dilation),
                                  ", rhs_dilate = ",
                                  text::list(w.rhs_dilation),
                                  "} {batch_group_count = ",
                                  std::to_string(batch_groups),
                                  " : i64, feature_group_count = ",
                                  std::to_string(feature_groups),
                                  " : i64, precision_config = [",
                                  precise,
                                  ", ",
                                  precise,
                                  "]} : ",
                                  text::signature(operands, {type})}));
}

Value Builder::cholesky(Value x, bool lower) {
  constexpr std::string_view op = "stablehlo.cholesky";
  require(is_square(x), op, {x}, "no square matrix");
  return generic(op, {x}, text::concat({"lower = ", text::boolean(lower)}), {}, {*x.type})[0];
}

Value Builder::triangular_solve(Value a, Value b, bool left, bool lower, bool unit_diagonal, char transpose) {
  constexpr std::string_view op = "stablehlo.triangular_solve";
  bool fits = is_square(a) && a.rank() == b.rank() && a.dtype() == b.dtype() && a.dim(-1) == b.dim(left ? -2 : -1);
  for (int64_t d = 0; fits && d + 2 < a.rank(); ++d) fits = a.dim(d) == b.dim(d);
  require(fits, op, {a, b}, "the matrix and the right-hand side do not fit");
  require(transpose == 'N' || transpose == 'T' || transpose == 'C', op, {a, b}, "transpose is not N, T or C");
  const std::string_view how = transpose == 'N' ? "NO_TRANSPOSE" : transpose == 'T' ? "TRANSPOSE" : "ADJOINT";
  const std::string attributes = text::concat({"left_side = ", text::boolean(left), ", lower = ", text::boolean(lower),
                                               ", unit_diagonal = ", text::boolean(unit_diagonal),
                                               ", transpose_a = #stablehlo<transpose ", how, ">"});
  return generic(op, {a, b}, attributes, {}, {*b.type})[0];
}

Value Builder::fft(Value x, Fft kind, const Dims& lengths) {
  constexpr std::string_view op = "stablehlo.fft";
  constexpr std::string_view kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  const size_t count = lengths.size(), rank = x.dims().size();
  require(1 <= count && count <= 3 && count <= rank, op, {x}, "not one to three lengths");
  const bool to_complex = kind == Fft::kRfft, to_real = kind == Fft::kIrfft;
  const bool takes = to_complex ? x.dtype() == DType::kF32 || x.dtype() == DType::kF64 : is_complex(x.dtype());
  require(takes, op, {x}, "not defined for this element type");
  const int64_t half = lengths.back() / 2 + 1;
  Dims input = lengths;
  if (to_real) input.back() = half;
  const bool fits = std::equal(input.begin(), input.end(), x.dims().end() - static_cast<int64_t>(count));
  require(fits, op, {x}, text::concat({"has not the lengths ", text::list(input)}));
  Type result = *x.type;
  if (to_complex) result = {complex_of(x.dtype()), x.dims()}, result.dims.back() = half;
  if (to_real) result = {real_of(x.dtype()), x.dims()}, result.dims.back() = lengths.back();
  const std::string attributes = text::concat(
      {"fft_type = #stablehlo<fft_type ", kNames[static_cast<size_t>(kind)], ">, fft_length = ", text::array(lengths)});
  return generic(op, {x}, attributes, {}, {result})[0];
}

}  // namespace tpu::hlo
