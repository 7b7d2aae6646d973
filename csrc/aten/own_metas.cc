#include "aten/own_metas.h"

#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/layer_norm.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace tpu::aten {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
using Sizes = std::vector<int64_t>;

// --- Fourier transforms ---------------------------------------------------------------------------------------------

std::vector<int64_t> wrapped(const c10::IValue& dims, int64_t rank) {
  std::vector<int64_t> out = dims.toIntVector();
  for (int64_t& d : out) d = at::maybe_wrap_dim(d, rank);
  return out;
}

at::Tensor optional(const c10::IValue& v) { return v.isNone() ? at::Tensor() : v.toTensor(); }

void order_by_stride(Sizes::iterator begin, Sizes::iterator end, at::IntArrayRef strides) {
  std::stable_sort(begin, end, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
}

// Without gaps, its dimensions one inside the other in an order, the outermost first.
at::Tensor dense(const Sizes& sizes, const Sizes& order, at::TensorOptions options) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[static_cast<size_t>(*d)] = next;
    next *= sizes[static_cast<size_t>(*d)];
  }
  return at::empty_strided(sizes, strides, options.device(at::kMeta));
}

// The library transforms the innermost dimensions: the others stand before them in the order of their strides.
at::Tensor transformed(const Sizes& sizes, at::IntArrayRef strides, const Sizes& dims, at::TensorOptions options) {
  Sizes order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto others = std::stable_partition(
      order.begin(), order.end(), [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) == dims.end(); });
  order_by_stride(order.begin(), others, strides);
  std::copy(dims.begin(), dims.end(), others);
  return dense(sizes, order, options);
}

at::Tensor complex_to_complex(const at::Tensor& x, Sizes dims) {
  if (dims.empty()) return at::empty_like(x, x.options().device(at::kMeta));
  order_by_stride(dims.begin(), dims.end(), x.strides());
  return transformed(x.sizes().vec(), x.strides(), dims, x.options());
}

std::vector<at::Tensor> fft_c2c(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  return {complex_to_complex(x, wrapped(a[1], x.dim()))};
}

std::vector<at::Tensor> fft_r2c(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  Sizes dims = wrapped(a[1], x.dim()), sizes = x.sizes().vec();
  int64_t& last = sizes[static_cast<size_t>(dims.back())];
  if (a[3].toBool()) last = last / 2 + 1;
  order_by_stride(dims.begin(), dims.end() - 1, x.strides());
  return {transformed(sizes, x.strides(), dims, x.options().dtype(c10::toComplexType(x.scalar_type())))};
}

std::vector<at::Tensor> fft_c2r(Arguments a) {
  at::Tensor x = a[0].toTensor();
  Sizes dims = wrapped(a[1], x.dim()), sizes = x.sizes().vec();
  const int64_t last = dims.back();
  dims.pop_back();
  sizes[static_cast<size_t>(last)] = a[3].toInt();
  const at::TensorOptions options = x.options().dtype(c10::toRealValueType(x.scalar_type()));
  if (!dims.empty()) x = complex_to_complex(x, dims);
  return {transformed(sizes, x.strides(), {last}, options)};
}

// --- LAPACK's order of elements -------------------------------------------------------------------------------------

at::Tensor by_columns(const at::Tensor& like, at::ScalarType dtype) {
  Sizes sizes = like.sizes().vec();
  std::swap(sizes[sizes.size() - 2], sizes.back());
  return at::empty(sizes, like.options().device(at::kMeta).dtype(dtype)).mT();
}

at::Tensor of_vectors(const at::Tensor& like, int64_t size, at::ScalarType dtype) {
  Sizes sizes(like.sizes().begin(), like.sizes().end() - 2);
  sizes.push_back(size);
  return at::empty(sizes, like.options().device(at::kMeta).dtype(dtype));
}

std::vector<at::Tensor> geqrf(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  TORCH_CHECK(x.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  return {by_columns(x, x.scalar_type()), of_vectors(x, std::min(x.size(-2), x.size(-1)), x.scalar_type())};
}

at::ScalarType dtype_of_eigenvalues(const at::Tensor& x, const char* name) {
  at::native::squareCheckInputs(x, name);
  TORCH_CHECK_NOT_IMPLEMENTED(x.scalar_type() != at::kHalf && x.scalar_type() != at::kBFloat16,
                              "\"linalg_eig_out_tpu\" not implemented for '", x.scalar_type(), "'");
  return c10::toComplexType(x.scalar_type());
}

std::vector<at::Tensor> eig(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  const at::ScalarType dtype = dtype_of_eigenvalues(x, "linalg.eig");
  return {of_vectors(x, x.size(-1), dtype), by_columns(x, dtype)};
}

std::vector<at::Tensor> eigvals(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  const at::ScalarType dtype = dtype_of_eigenvalues(x, "linalg.eigvals");
  return {of_vectors(x, x.size(-1), dtype)};
}

// --- What every transformer begins with -----------------------------------------------------------------------------

// As for layer_norm below.
std::vector<at::Tensor> embedding(Arguments a) {
  const at::Tensor &weight = a[0].toTensor(), &indices = a[1].toTensor();
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  at::checkScalarTypes("embedding", {indices, "indices", 1}, {at::kLong, at::kInt});
  Sizes sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  return {at::empty(sizes, weight.options().device(at::kMeta))};
}

// zeros_like and the like: `options` is where dtype, layout, device, pinning and memory format begin.
template <size_t options>
std::vector<at::Tensor> alike(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  const c10::IValue &dtype = a[options], &format = a[options + 4];
  return {at::empty_like(x, dtype.isNone() ? x.options() : x.options().dtype(dtype.toScalarType()),
                         format.isNone() ? std::nullopt : std::optional(format.toMemoryFormat()))};
}

// Of `numbers` numbers: the end; start and end; start, end and step. The dtype stands behind them.
template <size_t numbers>
std::vector<at::Tensor> arange(Arguments a) {
  const c10::Scalar start = numbers == 1 ? c10::Scalar(0) : a[0].toScalar();
  const c10::Scalar end = a[numbers == 1 ? 0 : 1].toScalar();
  const c10::Scalar step = numbers == 3 ? a[2].toScalar() : c10::Scalar(1);
  const auto is_whole = [](const c10::IValue& v) { return v.toScalar().isIntegral(true); };
  const at::ScalarType by_default =
      std::all_of(a.begin(), a.begin() + numbers, is_whole) ? at::kLong : at::get_default_dtype_as_scalartype();
  const at::ScalarType dtype = a[numbers].isNone() ? by_default : a[numbers].toScalarType();
  int64_t size = 0;
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "arange_cpu",
                             [&] { size = at::native::compute_arange_size<scalar_t>(start, end, step); });
  return {at::empty({size}, at::TensorOptions(at::kMeta).dtype(dtype))};
}

// --- Element by element ---------------------------------------------------------------------------------------------

// As large as all operands together, laid out as TensorIterator would.
at::Tensor over(std::initializer_list<at::Tensor> operands, at::ScalarType dtype) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).declare_static_dtype_and_device(dtype, at::kMeta).add_owned_output(at::Tensor());
  for (const at::Tensor& t : operands) {
    config.add_owned_const_input(at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta)));
  }
  return config.build().output();
}

std::vector<at::Tensor> where(Arguments a) {
  const at::Tensor &condition = a[0].toTensor(), &x = a[1].toTensor(), &y = a[2].toTensor();
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  if (condition.scalar_type() == at::kByte) {
    TORCH_WARN_ONCE(
        "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future ",
        "version of PyTorch. Use a boolean condition instead.");
  }
  return {over({condition, x, y}, at::result_type(x, y))};
}

std::vector<at::Tensor> relu(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  TORCH_CHECK(x.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  TORCH_CHECK_NOT_IMPLEMENTED(!x.is_complex(), "clamp is not supported for complex types");
  return {over({x}, x.scalar_type())};
}

// PyTorch's says nothing of the sizes.
std::vector<at::Tensor> isin_scalar(Arguments) {
  return {at::empty({}, at::TensorOptions(at::kMeta).dtype(at::kBool))};
}

// --- Normalization --------------------------------------------------------------------------------------------------

std::vector<at::Tensor> layer_norm(Arguments a) {
  const at::Tensor& x = a[0].toTensor();
  const Sizes shape = a[1].toIntVector();
  at::native::_check_layer_norm_inputs(x, shape, optional(a[2]), optional(a[3]));
  const at::TensorOptions options = x.options().device(at::kMeta);
  Sizes sizes = x.sizes().vec();
  std::fill(sizes.end() - static_cast<ptrdiff_t>(shape.size()), sizes.end(), 1);
  const at::TensorOptions statistics = options.dtype(at::toOpMathType(x.scalar_type()));
  return {at::empty(x.sizes(), options), at::empty(sizes, statistics), at::empty(sizes, statistics)};
}

std::vector<at::Tensor> layer_norm_backward(Arguments a) {
  const auto wanted = a[7].toBoolList();
  const auto like = [&](const c10::IValue& v, bool wants) {
    const at::Tensor t = optional(v);
    return wants && t.defined() ? at::empty(t.sizes(), t.options().device(at::kMeta)) : at::Tensor();
  };
  return {like(a[1], wanted[0]), like(a[5], wanted[1]), like(a[6], wanted[2])};
}

// --- Attention ------------------------------------------------------------------------------------------------------

// The result lies as the queries do.
std::vector<c10::IValue> attention(Arguments a) {
  const at::Tensor& query = a[0].toTensor();
  Sizes sizes = query.sizes().vec(), order(sizes.size());
  const at::TensorOptions options = query.options().device(at::kMeta);
  sizes.back() = a[2].toTensor().size(-1);
  at::Tensor result = at::empty_like(query, options);
  if (result.sizes() != at::IntArrayRef(sizes)) {
    std::iota(order.begin(), order.end(), 0);
    order_by_stride(order.begin(), order.end(), query.strides());
    result = dense(sizes, order, options);
  }
  const Sizes rows{query.dim() == 4 ? query.size(0) : 1, query.size(-3), query.size(-2)};
  const at::Tensor number = at::empty({}, options.dtype(at::kLong));
  return {result,         at::empty(rows, options.dtype(at::kFloat)),
          at::Tensor(),   at::Tensor(),
          query.size(-2), a[1].toTensor().size(-2),
          number,         number,
          at::Tensor()};
}

std::vector<at::Tensor> attention_backward(Arguments a) {
  std::vector<at::Tensor> results;
  for (const size_t i : {1, 2, 3, 4}) {
    const at::Tensor of = optional(a[i]);
    results.push_back(of.defined() ? at::empty_like(of, of.options().device(at::kMeta)) : at::Tensor());
  }
  return results;
}

// --- Products with a dtype of their own -----------------------------------------------------------------------------

// Of self + product. PyTorch's functions want one dtype of all, and that of baddbmm takes the dtype for a factor.
template <bool kInBatches>
std::vector<at::Tensor> add_product_as(Arguments a) {
  const at::Tensor &self = a[0].toTensor(), &x = a[1].toTensor(), &y = a[2].toTensor();
  const at::ScalarType dtype = a[3].toScalarType(), given = x.scalar_type();
  TORCH_CHECK(given == y.scalar_type(), "mat1 and mat2 must have the same dtype, but got ", given, " and ",
              y.scalar_type());
  TORCH_CHECK(dtype == given || (dtype == at::kFloat && (given == at::kHalf || given == at::kBFloat16)),
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs, but got ", dtype, " for ",
              given);
  TORCH_CHECK(self.scalar_type() == dtype || self.scalar_type() == given,
              "self dtype must match either out_dtype or mat1 dtype, but got ", self.scalar_type());
  const auto meta = [](const at::Tensor& t) { return at::empty(t.sizes(), t.options().device(at::kMeta)); };
  const at::Tensor product = kInBatches ? at::bmm(meta(x), meta(y)) : at::mm(meta(x), meta(y));
  return {product.to(dtype)};
}

// --- Draws ----------------------------------------------------------------------------------------------------------

std::vector<at::Tensor> binomial(Arguments a) {
  for (const size_t i : {0, 1}) {
    const at::ScalarType dtype = a[i].toTensor().scalar_type();
    TORCH_CHECK_VALUE(at::isFloatingType(dtype), "binomial only supports floating-point dtypes for ",
                      i == 0 ? "count" : "prob", ", got: ", dtype);
  }
  const at::Tensor& count = a[0].toTensor();
  return {at::empty(count.sizes(), count.options().device(at::kMeta))};
}

const std::map<std::string, OwnMeta, std::less<>> kMetas = {
    {"_fft_c2c", {&fft_c2c}},
    {"_fft_c2r", {&fft_c2r}},
    {"_fft_r2c", {&fft_r2c}},
    {"_scaled_dot_product_fused_attention_overrideable", {.returns = &attention}},
    {"_scaled_dot_product_fused_attention_overrideable_backward", {&attention_backward}},
    {"addmm.dtype", {&add_product_as<false>}},
    {"arange", {.results = &arange<1>, .for_fresh = true}},
    {"arange.start", {.results = &arange<2>, .for_fresh = true}},
    {"arange.start_step", {.results = &arange<3>, .for_fresh = true}},
    {"baddbmm.dtype", {&add_product_as<true>}},
    {"_linalg_eigvals", {&eigvals}},
    {"binomial", {&binomial}},
    {"embedding", {&embedding}},
    {"full_like", {&alike<2>}},
    {"geqrf", {&geqrf, true}},
    {"isin.Scalar_Tensor", {&isin_scalar}},
    {"linalg_eig", {&eig, true}},
    {"native_layer_norm", {&layer_norm}},
    {"native_layer_norm_backward", {&layer_norm_backward}},
    {"ones_like", {&alike<1>}},
    {"relu", {&relu}},
    {"where.self", {&where}},
    {"zeros_like", {&alike<1>}},
};

}  // namespace

OwnMeta own_meta(const std::string& functional) {
  const auto found = kMetas.find(functional);
  return found == kMetas.end() ? OwnMeta{} : found->second;
}

}  // namespace tpu::aten
