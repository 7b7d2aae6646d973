// Dense algebra that StableHLO or its compilers have: Cholesky, triangular solves, QR, Hermitian eigenvalues; and what
// is made of these.
#include <algorithm>
#include <cmath>

#include "ops/families.h"
#include "ops/orthogonal.h"
#include "ops/triangles.h"

namespace tpu::ops {

Reflectors reflect(Builder& b, Value a) {
  Dims taus = batch_of(a.dims());
  taus.push_back(std::min(a.dim(-1), a.dim(-2)));
  const Values v = b.custom_call("Qr", {a}, {*a.type, {a.dtype(), taus}});
  return {v[0], v[1]};
}

Value product_of(Builder& b, const Reflectors& r, int64_t columns) {
  Value packed = b.slice_dim(r.packed, r.packed.rank() - 1, 0, std::min(columns, r.packed.dim(-1)));
  Dims high(packed.dims().size(), 0);
  high.back() = columns - packed.dim(-1);
  packed = b.pad(packed, b.scalar(0, packed.dtype()), Dims(high.size(), 0), high);
  return b.custom_call("ProductOfElementaryHouseholderReflectors", {packed, r.taus}, {*packed.type})[0];
}

Eigen eigen(Builder& b, Value a, bool lower) {
  const DType real = real_of(a.dtype());
  const Value triangle = lower ? lower_triangle(b, a, -1) : b.sub(upper_triangle(b, a), b.mul(identity_like(b, a), a));
  const Value on_diagonal = b.convert(b.real(b.mul(identity_like(b, a), a)), a.dtype());
  const Value whole = b.add(b.add(triangle, adjoint(b, triangle)), on_diagonal);
  Dims values = batch_of(a.dims());
  values.push_back(a.dim(-1));
  const std::string config =
      std::string("backend_config = \"1,1,100,") + (real == DType::kF64 ? "1e-15" : "1e-7") + "\"";
  const Values v = b.custom_call("Eigh", {whole}, {*a.type, {real, values}}, config);
  return {v[1], v[0]};
}

namespace {

using hlo::Reduce;

Values zeros(Builder& b, const Call& call) {
  Values all;
  for (const hlo::Type* type : call.results) all.push_back(b.zeros(*type));
  return all;
}

// --- Cholesky -------------------------------------------------------------------------------------------------------

// LAPACK's: 0, or the order of the first leading minor that is not positive definite. Found column by column, where a
// factorization has failed.
Value first_bad_minor(Builder& b, Value a, Value factor, bool upper) {
  const int64_t n = a.dim(-1), batch = Type{a.dtype(), batch_of(a.dims())}.numel();
  const DType real = real_of(a.dtype());
  const Value bad = b.is_nan(b.real(b.reshape(diagonal(b, factor), {batch, n})));
  const Value failed = b.reduce(Reduce::kOr, bad, {1});
  const auto int32 = [&](int64_t v) { return b.scalar_int(v, DType::kS32); };
  const Value none = b.full(0, DType::kS32, {batch});
  const Value some = b.reduce(Reduce::kOr, failed, {0});
  const auto search = [&]() -> Values {
    const Value x = b.reshape(upper ? adjoint(b, a) : a, {batch, n, n});
    // Outer products are taken away in turn; what stands on the diagonal must be positive.
    const Values done = b.while_(
        {int32(0), x, none}, [&](const Values& s) { return Values{b.lt(s[0], int32(n))}; },
        [&](const Values& s) {
          const Value zero = int32(0);
          const Value column = b.reshape(b.dynamic_slice(s[1], {zero, zero, s[0]}, {batch, n, 1}), {batch, n});
          const Value head = b.real(b.reshape(b.dynamic_slice(column, {zero, s[0]}, {batch, 1}), {batch}));
          const Value good = b.gt(head, b.scalar(0, real));
          const Value safe = b.convert(b.select(good, head, b.scalar(1, real)), a.dtype());
          const auto beside = [&](Value v, int64_t dim) { return b.broadcast_in_dim(v, s[1].dims(), {0, dim}); };
          const Value scaled = b.div(column, b.broadcast_in_dim(safe, column.dims(), {0}));
          const Value next = b.sub(s[1], b.mul(beside(scaled, 1), beside(conjugate(b, column), 2)));
          const Value first = b.and_(b.not_(good), b.eq(s[2], zero));
          return Values{b.add(s[0], int32(1)), next, b.select(first, b.add(s[0], int32(1)), s[2])};
        });
    return {done[2]};
  };
  const Value found = b.if_(some, search, [&]() -> Values { return {none}; })[0];
  return b.reshape(b.select(failed, found, none), batch_of(a.dims()));
}

// x with a x = y, `a` being the product of the triangle and its adjoint.
Value solve_by_cholesky(Builder& b, Value y, Value triangle, bool upper) {
  y = b.triangular_solve(triangle, y, true, !upper, false, upper ? 'C' : 'N');
  return b.triangular_solve(triangle, y, true, !upper, false, upper ? 'N' : 'C');
}

void add_cholesky(Table& ops) {
  ops.add("linalg_cholesky_ex", plain, [](Builder& b, const Call& call, Value a, bool upper, bool) {
    if (a.numel() == 0) return zeros(b, call);
    const Value factor = b.cholesky(a, !upper);
    return Values{upper ? upper_triangle(b, factor) : lower_triangle(b, factor), first_bad_minor(b, a, factor, upper)};
  });
  ops.add("_cholesky_solve_helper", contraction, [](Builder& b, const Call& call, Value y, Value a, bool upper) {
    return y.numel() == 0 ? b.zeros(*call.results[0]) : solve_by_cholesky(b, y, a, upper);
  });
  ops.add("cholesky_inverse", plain, [](Builder& b, const Call& call, Value a, bool upper) {
    return a.numel() == 0 ? b.zeros(*call.results[0]) : solve_by_cholesky(b, identity_like(b, a), a, upper);
  });
}

// --- triangular solves ----------------------------------------------------------------------------------------------

void add_triangular(Table& ops) {
  ops.add("linalg_solve_triangular", contraction,
          [](Builder& b, const Call& call, Value a, Value y, bool upper, bool left, bool unit) {
            if (call.results[0]->numel() == 0) return b.zeros(*call.results[0]);
            const Dims batch = batch_of(call.results[0]->dims);
            return b.triangular_solve(over_batch(b, a, batch), over_batch(b, y, batch), left, !upper, unit, 'N');
          });
  ops.add("triangular_solve", contraction,
          [](Builder& b, const Call& call, Value y, Value a, bool upper, bool transpose, bool unit) {
            if (call.results[0]->numel() == 0) return zeros(b, call);
            const Dims batch = batch_of(call.results[0]->dims);
            const Value matrix = over_batch(b, a, batch);
            return Values{
                b.triangular_solve(matrix, over_batch(b, y, batch), true, !upper, unit, transpose ? 'T' : 'N'), matrix};
          });
}

// --- QR -------------------------------------------------------------------------------------------------------------

// Q y, Q^H y, y Q or y Q^H of the whole square Q.
Value times_orthogonal(Builder& b, const Call& call, Value packed, Value taus, Value y, bool left, bool adjoined) {
  if (call.results[0]->numel() == 0 || taus.dim(-1) == 0) return y;
  packed = b.slice_dim(packed, packed.rank() - 1, 0, taus.dim(-1));
  const Value q = product_of(b, {packed, taus}, packed.dim(-2)), factor = adjoined ? adjoint(b, q) : q;
  return left ? b.matmul(factor, y, y.dtype()) : b.matmul(y, factor, y.dtype());
}

void add_qr(Table& ops) {
  ops.add("linalg_qr", plain, [](Builder& b, const Call& call, Value a, std::string mode) {
    const int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
    if (a.numel() == 0) {  // of nothing, Q is the identity
      Values out = zeros(b, call);
      if (out[0].numel() != 0) out[0] = identity_like(b, out[0]);
      return out;
    }
    const Reflectors r = reflect(b, a);
    const int64_t rows = mode == "complete" ? m : k;
    const Value upper = upper_triangle(b, b.slice_dim(r.packed, a.rank() - 2, 0, rows));
    if (mode == "r") return Values{b.zeros(*call.results[0]), upper};
    return Values{product_of(b, r, rows), upper};
  });
  ops.add("geqrf", plain, [](Builder& b, const Call& call, Value a) {
    if (a.numel() == 0) return zeros(b, call);
    const Reflectors r = reflect(b, a);
    return Values{r.packed, r.taus};
  });
  ops.add("ormqr", contraction, lowering<times_orthogonal>);
  ops.add("linalg_householder_product", contraction, [](Builder& b, const Call& call, Value a, Value taus) {
    if (a.numel() == 0) return b.zeros(*call.results[0]);
    return taus.numel() == 0 ? identity_like(b, a) : product_of(b, {a, taus}, a.dim(-1));
  });
}

// --- Hermitian eigenvalues ------------------------------------------------------------------------------------------

void add_spectral(Table& ops) {
  ops.add("_linalg_eigh", plain, [](Builder& b, const Call& call, Value a, std::string part, bool with_vectors) {
    if (a.numel() == 0) return zeros(b, call);
    const Eigen e = eigen(b, a, part == "L" || part == "l");
    return Values{e.values, with_vectors ? e.vectors : b.zeros(*call.results[1])};
  });
}

// --- others ---------------------------------------------------------------------------------------------------------

// x rolled by `shift` over a dimension of size 3.
Value rolled(Builder& b, Value x, int64_t dim, int64_t shift) {
  return b.concat({b.slice_dim(x, dim, shift, 3), b.slice_dim(x, dim, 0, shift)}, dim);
}

// Scaling by a power of two to where a Taylor polynomial of degree 18 is exact, as often as each matrix needs;
// squarings.
Value matrix_exp(Builder& b, Value a) {
  const DType real = real_of(a.dtype());
  const double largest = real == DType::kF64 ? 1.09 : 3.01;
  const Value columns = b.reduce(Reduce::kAdd, b.abs(a), {a.rank() - 2});
  const Value norm = b.reduce(Reduce::kMax, columns, {columns.rank() - 1});
  const Value share = b.log(b.div(norm, b.full_like(norm, largest)));
  const Value exponent = b.ceil(b.div(share, b.full_like(norm, std::log(2.0))));
  const Value times = b.max(b.zeros_like(norm), b.min(exponent, b.full_like(norm, 2000)));
  const auto beside = [&](Value v) {
    Dims batch;
    for (int64_t d = 0; d < v.rank(); ++d) batch.push_back(d);
    return b.broadcast_in_dim(v, a.dims(), batch);
  };
  const Value factor = b.pow(b.full_like(norm, 0.5), times);
  const Value x = b.mul(a, b.convert(beside(factor), a.dtype())), one = identity_like(b, a);
  Value sum = b.add(one, b.mul(x, b.scalar(1.0 / 18, a.dtype())));
  for (int i = 17; i > 0; --i) {
    sum = b.add(one, b.mul(b.matmul(x, sum, a.dtype()), b.scalar(1.0 / i, a.dtype())));
  }
  Dims all;
  for (int64_t d = 0; d < norm.rank(); ++d) all.push_back(d);
  const Value squarings = b.convert(times, DType::kS32), most = b.reduce(Reduce::kMax, squarings, all);
  return b.while_(
      {b.scalar_int(0, DType::kS32), sum}, [&](const Values& s) { return Values{b.lt(s[0], most)}; },
      [&](const Values& s) {
        const Value open = beside(b.gt(squarings, b.broadcast_to(s[0], squarings.dims())));
        return Values{b.add(s[0], b.scalar_int(1, DType::kS32)), b.select(open, b.matmul(s[1], s[1], a.dtype()), s[1])};
      })[1];
}

}  // namespace

void add_linalg(Table& ops) {
  add_cholesky(ops);
  add_triangular(ops);
  add_qr(ops);
  add_spectral(ops);
  ops.add("linalg_cross", together, [](Builder& b, const Call& call, Value x, Value y, int64_t dim) {
    if (call.results[0]->numel() == 0) return b.zeros({x.dtype(), call.results[0]->dims});
    const int64_t d = dim < 0 ? dim + x.rank() : dim;
    return b.sub(b.mul(rolled(b, x, d, 1), rolled(b, y, d, 2)), b.mul(rolled(b, x, d, 2), rolled(b, y, d, 1)));
  });
  ops.add("linalg_matrix_exp", plain, [](Builder& b, const Call& call, Value a) {
    return a.numel() == 0 ? b.zeros(*call.results[0]) : matrix_exp(b, b.convert(a, call.compute));
  });
}

}  // namespace tpu::ops
