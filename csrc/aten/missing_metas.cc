// Meta functions of operators for which PyTorch has none.

#include <ATen/native/Resize.h>
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

// LAPACK's order of elements.
std::tuple<Tensor, Tensor> geqrf(const Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  auto sizes = self.sizes().vec();
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  std::swap(sizes[sizes.size() - 2], sizes.back());
  const Tensor packed = at::empty(sizes, self.options()).mT();
  sizes.resize(sizes.size() - 2);
  sizes.push_back(std::min(rows, columns));
  return {packed, at::empty(sizes, self.options())};
}

void resize_like(const Tensor& out, const Tensor& like) {
  if (at::native::resize_output(out, like.sizes())) out.as_strided_(like.sizes(), like.strides());
}

std::tuple<Tensor&, Tensor&> geqrf_out(const Tensor& self, Tensor& packed, Tensor& taus) {
  const auto like = aten::geqrf(self);
  resize_like(packed, std::get<0>(like));
  resize_like(taus, std::get<1>(like));
  return {packed, taus};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("geqrf", TORCH_FN(geqrf));
  m.impl("geqrf.a", TORCH_FN(geqrf_out));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace
}  // namespace tpu::aten
