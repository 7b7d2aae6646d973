#include "aten/linalg.h"

#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/engine.h"

namespace tpu::aten {

// For the derivative, PyTorch takes the factors of a contiguous real matrix for those of its transpose.
void run_determinant(const Overload& overload, torch::jit::Stack* stack) {
  c10::IValue& matrix = (*stack)[stack->size() - overload.handle.schema().arguments().size()];
  const at::Tensor& a = matrix.toTensor();
  if (a.dim() >= 2 && a.size(-1) == a.size(-2) && a.is_contiguous() && !a.is_complex()) matrix = a.mT();
  run(overload, stack);
}

void run_eigen(const Overload& overload, torch::jit::Stack* stack) {
  const at::Tensor a = (*stack)[stack->size() - overload.handle.schema().arguments().size()].toTensor();
  TORCH_CHECK(at::isfinite(a).all().item<bool>(), "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  run(overload, stack);
}

namespace {

// Solutions, residuals, ranks, singular values.
using LeastSquares = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Of full rank, by QR.
at::Tensor solve_full_rank(const at::Tensor& a, const at::Tensor& y) {
  const bool tall = a.size(-2) >= a.size(-1);
  const auto [q, r] = at::linalg_qr(tall ? a : a.mH());
  if (tall) return at::linalg_solve_triangular(r, q.mH().matmul(y), /*upper=*/true);
  return q.matmul(at::linalg_solve_triangular(r.mH(), y, /*upper=*/false));
}

// What PyTorch's CPU kernel returns: which of the results are empty depends on the driver, and the residuals also on
// the ranks that are found.
LeastSquares lstsq(const at::Tensor& a, const at::Tensor& b, std::optional<double> rcond,
                   std::optional<std::string_view> driver) {
  TORCH_CHECK(a.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(b.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype ",
              a.scalar_type(), " and other's dtype ", b.scalar_type());
  const std::string_view how = driver.value_or("gelsy");
  TORCH_CHECK(how == "gels" || how == "gelsy" || how == "gelsd" || how == "gelss",
              "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  const int64_t m = a.size(-2), n = a.size(-1);
  const bool vector = a.dim() - 1 == b.dim() && a.sizes().slice(0, a.dim() - 1) == b.sizes();
  const at::Tensor right = vector ? b.unsqueeze(-1) : b;
  TORCH_CHECK(right.dim() >= 2 && right.size(-2) == m, "torch.linalg.lstsq: input.size(-2) should match other.size(",
              vector ? -1 : -2, ")");
  const at::ScalarType real = c10::toRealValueType(a.scalar_type());
  const auto none = [&](at::ScalarType dtype) { return at::empty({0}, a.options().dtype(dtype)); };
  at::Tensor x, rank = none(at::kLong), singular = none(real), residuals = none(real);
  bool full_rank = true;
  if (how == "gels") {
    x = solve_full_rank(a, right);
  } else {
    const auto [u, s, vh] = at::linalg_svd(a, /*full_matrices=*/false);
    const double least = rcond.value_or(std::numeric_limits<double>::quiet_NaN());
    const double eps = a.scalar_type() == at::kDouble || a.scalar_type() == at::kComplexDouble
                           ? std::numeric_limits<double>::epsilon()
                           : std::numeric_limits<float>::epsilon();
    const double relative = least >= 0 ? least : eps * static_cast<double>(rcond ? 1 : std::max(m, n));
    const at::Tensor kept = s.gt(s.slice(-1, 0, 1) * relative);
    const at::Tensor inverse = at::where(kept, s.reciprocal(), at::zeros_like(s)).unsqueeze(-1);
    x = vh.mH().matmul(inverse * u.mH().matmul(right));
    rank = kept.sum(-1);
    if (how != "gelsy") singular = s;
    full_rank = how == "gelsy" || m <= n || rank.eq(n).all().item<bool>();
  }
  if (m > n && how != "gelsy" && full_rank) residuals = (a.matmul(x) - right).abs().square().sum(-2);
  // LAPACK's solutions lie column by column in memory that has room for the right side too.
  std::vector<int64_t> room = x.sizes().vec();
  room[room.size() - 2] = x.size(-1), room.back() = std::max(m, n);
  at::Tensor solution = at::empty(room, x.options()).mT().narrow(-2, 0, n);
  solution.copy_(x);
  return {vector ? solution.squeeze(-1) : solution, residuals, rank, singular};
}

// The older name, with its own words for what is refused.
at::Tensor cholesky(const at::Tensor& a, bool upper) {
  if (a.numel() == 0) return at::empty_like(a, at::MemoryFormat::Contiguous);
  const auto [factor, info] = at::linalg_cholesky_ex(a, upper);
  at::_linalg_check_errors(info, "cholesky", a.dim() == 2);
  return factor;
}
at::Tensor& cholesky_out(const at::Tensor& a, bool upper, at::Tensor& out) {
  const at::Tensor factor = aten::cholesky(a, upper);
  at::native::resize_output(out, factor.sizes());
  return out.copy_(factor);
}

at::Tensor& eigvals_out(const at::Tensor& a, at::Tensor& out) {
  const at::Tensor values = at::linalg_eigvals(a);
  TORCH_CHECK(at::can_cast(values.scalar_type(), out.scalar_type()),
              "torch.linalg.eigvals: Expected eigenvalues to be safely castable from ", values.scalar_type(),
              " dtype, but got eigenvalues with dtype ", out.scalar_type());
  at::native::resize_output(out, values.sizes());
  return out.copy_(values);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_eigvals.out", TORCH_FN(eigvals_out));
  m.impl("cholesky", TORCH_FN(cholesky));
  m.impl("cholesky.out", TORCH_FN(cholesky_out));
  m.impl("linalg_lstsq", TORCH_FN(lstsq));
}

}  // namespace
}  // namespace tpu::aten
