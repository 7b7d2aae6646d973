// Meta functions of operators for which PyTorch has none.

#include <torch/library.h>

namespace tpu::aten {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> gru_cell(const Tensor& /*input_gates*/, const Tensor& /*hidden_gates*/, const Tensor& hx,
                                    const std::optional<Tensor>& /*input_bias*/,
                                    const std::optional<Tensor>& /*hidden_bias*/) {
  return {at::empty_like(hx, at::MemoryFormat::Contiguous), at::empty({hx.size(0), hx.size(1) * 5}, hx.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                                                                     bool has_bias) {
  const int64_t rows = workspace.size(0), width = workspace.size(1) / 5;
  const auto make = [&](at::IntArrayRef sizes) { return at::empty(sizes, workspace.options()); };
  const auto bias = [&] { return has_bias ? make({width * 3}) : Tensor(); };
  return {make({rows, width * 3}), make({rows, width * 3}), at::empty_like(grad, at::MemoryFormat::Contiguous), bias(),
          bias()};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace
}  // namespace tpu::aten
