#include "aten/native_checks.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/layer_norm.h>

namespace tpu::aten {
namespace {

using Arguments = torch::jit::Stack;

at::Tensor tensor(const c10::IValue& v) { return v.isNone() ? at::Tensor() : v.toTensor(); }

// Choosing a backend begins with the checks.
void check_convolution(const Arguments& a) {
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

const std::map<std::string, void (*)(const Arguments&), std::less<>> kChecks = {
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
  if (const auto check = kChecks.find(op.operator_name().name); check != kChecks.end()) check->second(arguments);
}

}  // namespace tpu::aten
