// Which form of attention scaled_dot_product_attention takes: the row of the fused operator, or PyTorch's composite.

#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>

namespace tpu::aten {
namespace {

bool is_fused(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout_p) {
  if (dropout_p != 0 || !at::globalContext().userEnabledOverrideableSDP()) return false;
  const int64_t rank = query.dim();
  if ((rank != 3 && rank != 4) || key.dim() != rank || value.dim() != rank) return false;
  if (query.is_nested() || key.is_nested() || value.is_nested()) return false;
  if (query.numel() == 0 || key.numel() == 0 || value.numel() == 0) return false;
  if (rank == 4 && (key.size(0) != query.size(0) || value.size(0) != query.size(0))) return false;
  const int64_t heads = key.size(-3);  // fewer than the query's: each serves a group of them
  return value.size(-3) == heads && query.size(-3) % heads == 0;
}

int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& /*mask*/, double dropout_p, bool /*causal*/,
               std::optional<double> /*scale*/, bool /*enable_gqa*/) {
  return static_cast<int64_t>(is_fused(query, key, value, dropout_p) ? at::SDPBackend::overrideable
                                                                     : at::SDPBackend::math);
}

}  // namespace
}  // namespace tpu::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpu::aten::choose)
}  // namespace at::native
