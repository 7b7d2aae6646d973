#include "aten/native_checks.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/layer_norm.h>

namespace tpu::aten {
namespace {

using Arguments = torch::jit::Stack;

at::Tensor tensor(const c10::IValue& v) { return v.isNone() ? at::Tensor() : v.toTensor(); }

// --- in functions of headers ----------------------------------------------------------------------------------------

// Choosing a backend begins with the checks.
void check_convolution(const Arguments& a) {
  TORCH_CHECK(tensor(a[1]).dim() > 2, "weight should have at least three dimensions");
  std::vector<c10::DimVector> sizes;
  for (const size_t i : {3, 4, 5, 7}) sizes.push_back(a[i].toDimVector());
  const auto symbolic = [&](size_t i) { return c10::fromIntArrayRefSlow(sizes[i]); };
  at::native::select_conv_backend(tensor(a[0]), tensor(a[1]), tensor(a[2]), symbolic(0), symbolic(1), symbolic(2),
                                  a[6].toBool(), symbolic(3), a[8].toInt(), std::nullopt);
}

void check_grid_sampler_2d(const Arguments& a) {
  at::native::check_grid_sampler_common(tensor(a[0]), tensor(a[1]));
  at::native::check_grid_sampler_2d(tensor(a[0]), tensor(a[1]));
}

void check_grid_sampler_3d(const Arguments& a) {
  at::native::check_grid_sampler_common(tensor(a[0]), tensor(a[1]));
  at::native::check_grid_sampler_3d(tensor(a[0]), tensor(a[1]), a[2].toInt());
}

void check_layer_norm(const Arguments& a) {
  at::native::_check_layer_norm_inputs(tensor(a[0]), a[1].toDimVector(), tensor(a[2]), tensor(a[3]));
}

// --- inside of kernels ----------------------------------------------------------------------------------------------

void check_complex(const Arguments& a) {
  const at::ScalarType first = tensor(a[0]).scalar_type(), second = tensor(a[1]).scalar_type();
  const auto serves = [](at::ScalarType t) { return t == at::kHalf || t == at::kFloat || t == at::kDouble; };
  TORCH_CHECK(serves(first) && serves(second), "Expected both inputs to be Half, Float or Double tensors but got ",
              first, " and ", second);
  TORCH_CHECK(first == second, "Expected object of scalar type ", first, " but got scalar type ", second,
              " for second argument");
  if (a.size() == 2) return;
  const at::ScalarType result = c10::toComplexType(first), out = tensor(a[2]).scalar_type();
  TORCH_CHECK(result == out, "Expected object of scalar type ", result, " but got scalar type ", out,
              " for argument 'out'");
}

void check_dot(const Arguments& a) {
  const at::Tensor x = tensor(a[0]), y = tensor(a[1]);
  TORCH_CHECK(x.dim() != 1 || y.dim() != 1 || x.scalar_type() == y.scalar_type(),
              "dot : expected both vectors to have same dtype, but found ", x.scalar_type(), " and ", y.scalar_type());
}

void check_embedding(const Arguments& a) { TORCH_CHECK(tensor(a[0]).dim() == 2, "'weight' must be 2-D"); }

void check_extremum_out(const Arguments& a) {
  const at::ScalarType in = tensor(a[0]).scalar_type(), out = tensor(a[3]).scalar_type();
  TORCH_CHECK(in == out, "Expected the dtype for input and out to match, but got ", in, " for input's dtype and ", out,
              " for out's dtype.");
}

void check_extrema_out(const Arguments& a) {
  const at::Tensor x = tensor(a[0]);
  for (const size_t i : {3, 4}) {
    const at::Tensor out = tensor(a[i]);
    TORCH_CHECK(x.scalar_type() == out.scalar_type(), "Expected out tensor to have dtype ", x.dtype(), ", but got ",
                out.dtype(), " instead");
  }
}

void check_index_add(const Arguments& a) {
  const at::Tensor x = tensor(a[0]), source = tensor(a[3]);
  if (x.dim() == 0 || source.dim() == 0) return;
  const int64_t dim = at::maybe_wrap_dim(a[1].toInt(), x.dim());
  std::vector<int64_t> mine = x.sizes().vec(), theirs = source.sizes().vec();
  for (auto* sizes : {&mine, &theirs}) {
    if (dim < static_cast<int64_t>(sizes->size())) sizes->erase(sizes->begin() + dim);
  }
  TORCH_CHECK(mine == theirs,
              "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
              x.sizes(), " source.shape = ", source.sizes());
}

const char* name_in_cpp(at::ScalarType dtype) {
  switch (dtype) {
#define TPU_NAME(type, name) \
  case at::ScalarType::name: return #type;
    AT_FORALL_SCALAR_TYPES_AND3(Bool, Half, BFloat16, TPU_NAME)
#undef TPU_NAME
    default: return toString(dtype);
  }
}

void check_masked_fill(const Arguments& a) {
  const at::Tensor x = tensor(a[0]);
  bool is_complex = false;
  if (a[2].isTensor()) {
    const at::Tensor value = a[2].toTensor();
    TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
    is_complex = value.is_complex();
  } else {
    is_complex = a[2].toScalar().isComplex();
  }
  TORCH_CHECK(!is_complex || x.is_complex(), "value cannot be converted to type ", name_in_cpp(x.scalar_type()),
              " without overflow");
}

void check_masked_scatter(const Arguments& a) {
  const at::ScalarType mask = tensor(a[1]).scalar_type();
  TORCH_CHECK(mask == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ", mask);
}

// Exponents that are tensors may be negative.
void check_pow(const c10::IValue& base, const c10::IValue& exponent) {
  if (!base.isTensor() || !exponent.isScalar()) return;
  const at::Scalar by = exponent.toScalar();
  const bool whole = at::isIntegralType(base.toTensor().scalar_type(), /*includeBool=*/true) && by.isIntegral(true);
  TORCH_CHECK(!whole || by.toLong() >= 0, "Integers to negative integer powers are not allowed.");
}

void check_pow(const Arguments& a) { check_pow(a[0], a[1]); }

void check_foreach_pow(const Arguments& a) {
  if (!a[0].isTensorList()) return;
  const auto bases = a[0].toListRef();
  for (size_t i = 0; i < bases.size(); ++i) {
    if (!a[1].isList()) {
      check_pow(bases[i], a[1]);
    } else if (i < a[1].toListRef().size()) {
      check_pow(bases[i], a[1].toListRef()[i]);
    }
  }
}

void check_roll(const Arguments& a) {
  const size_t shifts = a[1].toDimVector().size(), dims = a[2].toDimVector().size();
  TORCH_CHECK(shifts == dims || shifts == 0 || (shifts == 1 && dims == 0),
              "shifts and dimensions must align. shifts: ", shifts, ", dims:", dims);
}

void check_trace(const Arguments& a) {
  TORCH_CHECK(tensor(a[0]).dim() == 2, "trace: expected a matrix, but got tensor with dim ", tensor(a[0]).dim());
}

void check_unpool(const Arguments& a) {
  const at::Tensor x = tensor(a[0]), index = tensor(a[1]);
  TORCH_CHECK(index.scalar_type() != at::kLong || x.sizes() == index.sizes(),
              "Expected shape of indices to be same as that of the input tensor (", x.sizes(),
              ") but got indices tensor with shape: ", index.sizes());
}

// By operator, or by overload where only one is checked.
const std::map<std::string, void (*)(const Arguments&), std::less<>> kChecks = {
    {"aten::_foreach_pow", &check_foreach_pow},
    {"aten::_foreach_pow_", &check_foreach_pow},
    {"aten::amax.out", &check_extremum_out},
    {"aten::amin.out", &check_extremum_out},
    {"aten::aminmax.out", &check_extrema_out},
    {"aten::complex", &check_complex},
    {"aten::dot", &check_dot},
    {"aten::embedding", &check_embedding},
    {"aten::index_add", &check_index_add},
    {"aten::index_add_", &check_index_add},
    {"aten::masked_fill", &check_masked_fill},
    {"aten::masked_fill_", &check_masked_fill},
    {"aten::masked_scatter", &check_masked_scatter},
    {"aten::masked_scatter_", &check_masked_scatter},
    {"aten::max_unpool2d", &check_unpool},
    {"aten::max_unpool3d", &check_unpool},
    {"aten::polar", &check_complex},
    {"aten::pow", &check_pow},
    {"aten::pow_", &check_pow},
    {"aten::roll", &check_roll},
    {"aten::trace", &check_trace},
    {"aten::vdot", &check_dot},
    {"aten::convolution", &check_convolution},
    {"aten::grid_sampler_2d", &check_grid_sampler_2d},
    {"aten::grid_sampler_3d", &check_grid_sampler_3d},
    {"aten::native_layer_norm", &check_layer_norm},
};

}  // namespace

void check_one_dtype(const std::string& name, const std::vector<at::Tensor>& operands) {
  const auto dtype = [&](size_t i) { return operands[i].scalar_type(); };
  const bool same =
      std::all_of(operands.begin(), operands.end(), [&](const at::Tensor& t) { return t.scalar_type() == dtype(0); });
  if (same) return;
  TORCH_CHECK(name != "aten::mm", "expected m1 and m2 to have the same dtype, but got: ", operands[0].dtype().name(),
              " != ", operands[1].dtype().name());
  TORCH_CHECK(name != "aten::mv", "addmv input tensors must have the same dtype, but got ", dtype(1), ", ", dtype(0),
              ", and ", dtype(1));
  TORCH_CHECK(operands.size() != 3, "self and mat2 must have the same dtype, but got ", dtype(0), " and ", dtype(2));
  TORCH_CHECK(false, name, ": expected both tensors to have the same dtype, but got ", dtype(0), " and ", dtype(1));
}

void check_castable(const at::Tensor& result, const at::Tensor& target) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), target.scalar_type()), "result type ", result.scalar_type(),
              " can't be cast to the desired output type ", target.scalar_type());
}

void check_natively(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  const c10::OperatorName& name = op.operator_name();
  for (const std::string& key : {name.name, toString(name)}) {
    if (const auto check = kChecks.find(key); check != kChecks.end()) {
      check->second(arguments);
      return;
    }
  }
}

}  // namespace tpu::aten
