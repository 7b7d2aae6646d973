// Products of matrices and vectors. Narrow floats are multiplied exactly, summed in float32 and rounded once.
#include "ops/families.h"
#include "ops/growing.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

constexpr Trait promoting{"promoting", true};  // operands keep their shapes
constexpr Trait mixed_multiplication{.name = "multiplication", .multiplies = true};

DType sums_in(Value x) { return opmath_of(x.dtype()); }

Value matmul(Builder& b, Value x, Value y) { return b.matmul(x, y, sums_in(x)); }

Value gelu(Builder& b, Value x) {
  const Value normal = b.unary("chlo.erf", b.mul(x, b.scalar(0.70710678118654752, x.dtype())));
  return b.mul(b.mul(x, b.scalar(0.5, x.dtype())), b.add(normal, b.scalar(1, x.dtype())));
}

// beta * self + alpha * product. A factor of 0 takes its side away, NaN and infinity too.
Value blend(Builder& b, const Call& call, Value self, Value product, Factor beta, Factor alpha) {
  const Dims& dims = call.results[0]->dims;
  Value sum = alpha.is(0) ? b.zeros({call.compute, dims}) : b.convert(product, call.compute);
  if (!alpha.is(0) && !alpha.is(1)) sum = b.mul(sum, alpha);
  if (beta.is(0)) return sum;
  const Value added = b.broadcast_to(b.convert(self, call.compute), dims);
  return b.add(beta.is(1) ? added : b.mul(added, beta), sum);
}

// What a product is added to is expanded to it. Products that do not fit are for PyTorch's meta function to refuse.
Status fits(const Type& self, const Dims& product) {
  const int64_t rank = self.rank(), before = static_cast<int64_t>(product.size()) - rank;
  if (before < 0) return {};
  for (int64_t d = rank - 1; d >= 0; --d) {
    const int64_t size = self.dims[static_cast<size_t>(d)], wanted = product[static_cast<size_t>(before + d)];
    if (size == wanted || size == 1) continue;
    return invalid("The expanded size of the tensor (" + std::to_string(wanted) + ") must match the existing size (" +
                   std::to_string(size) + ") at non-singleton dimension " + std::to_string(before + d) +
                   ".  Target sizes: " + shape(product) + ".  Tensor sizes: " + shape(self.dims));
  }
  return {};
}

Status refuse_addmm(const Call& call) {
  const Type &x = *call.operands[1], &y = *call.operands[2];
  if (x.rank() != 2 || y.rank() != 2 || x.dims[1] != y.dims[0]) return {};
  return fits(*call.operands[0], {x.dims[0], y.dims[1]});
}

Status refuse_baddbmm(const Call& call) {
  const Type &x = *call.operands[1], &y = *call.operands[2];
  if (x.rank() != 3 || y.rank() != 3 || x.dims[2] != y.dims[1] || x.dims[0] != y.dims[0]) return {};
  return fits(*call.operands[0], {x.dims[0], x.dims[1], y.dims[2]});
}

Status refuse_mv(const Call& call) {
  const Type &x = *call.operands[0], &y = *call.operands[1];
  if (x.rank() != 2 || y.rank() != 1 || x.dims[1] == y.dims[0]) return {};
  const auto n = [](int64_t v) { return std::to_string(v); };
  return invalid("size mismatch, got input (" + n(x.dims[0]) + "), mat (" + n(x.dims[0]) + "x" + n(x.dims[1]) +
                 "), vec (" + n(y.dims[0]) + ")");
}

Status refuse_dot(const Call& call) {
  const Type &x = *call.operands[0], &y = *call.operands[1];
  if (x.rank() != 1 || y.rank() != 1 || x.dims == y.dims || x.dtype != y.dtype) return {};
  const std::string n = std::to_string(x.numel()), m = std::to_string(y.numel());
  return invalid("inconsistent tensor size, expected tensor [" + n + "] and src [" + m +
                 "] to have the same number of elements, but got " + n + " and " + m + " elements respectively");
}

}  // namespace

void add_matmul(Table& ops) {
  const auto product = [](Builder& b, Value x, Value y) { return matmul(b, x, y); };
  ops.add("mm", multiplication, product).grows_by(grows_product<0>);
  ops.add("bmm", multiplication, product).grows_by(grows_product<0>);
  const auto product_as = [](Builder& b, Value x, Value y, DType) { return matmul(b, x, y); };
  ops.add("mm.dtype", multiplication, product_as);
  ops.add("bmm.dtype", multiplication, product_as);

  const auto add_product = [](Builder& b, const Call& call, Value self, Value x, Value y, Factor beta, Factor alpha) {
    return blend(b, call, self, matmul(b, x, y), beta, alpha);
  };
  ops.add("addmm", multiplication, add_product).refuses(refuse_addmm).grows_by(grows_product<1>);
  ops.add("baddbmm", multiplication, add_product).refuses(refuse_baddbmm).grows_by(grows_product<1>);
  const auto add_product_as = [](Builder& b, const Call& call, Value self, Value x, Value y, DType, Factor beta,
                                 Factor alpha) { return blend(b, call, self, matmul(b, x, y), beta, alpha); };
  // Which dtypes go together: aten/own_metas.cc.
  ops.add("addmm.dtype", mixed_multiplication, add_product_as).refuses(refuse_addmm);
  ops.add("baddbmm.dtype", mixed_multiplication, add_product_as).refuses(refuse_baddbmm);
  ops.add("addbmm", multiplication,
          [](Builder& b, const Call& call, Value self, Value x, Value y, Factor beta, Factor alpha) {
            return blend(b, call, self, b.dot_general(x, y, {}, {}, {0, 2}, {0, 1}, sums_in(x)), beta, alpha);
          });
  ops.add("_addmm_activation", multiplication,
          [](Builder& b, const Call& call, Value self, Value x, Value y, Factor beta, Factor alpha, bool use_gelu) {
            const DType dtype = call.results[0]->dtype;
            const Value sum = b.convert(blend(b, call, self, matmul(b, x, y), beta, alpha), dtype);
            return use_gelu ? gelu(b, b.convert(sum, call.compute)) : b.max(sum, b.scalar(0, dtype));
          });

  ops.add("mv", multiplication,
          [](Builder& b, Value x, Value y) { return b.dot_general(x, y, {}, {}, {1}, {0}, sums_in(x)); })
      .refuses(refuse_mv);
  ops.add("addmv", multiplication,
          [](Builder& b, const Call& call, Value self, Value x, Value y, Factor beta, Factor alpha) {
            return blend(b, call, self, b.dot_general(x, y, {}, {}, {1}, {0}, sums_in(x)), beta, alpha);
          });
  ops.add("dot", multiplication,
          [](Builder& b, Value x, Value y) { return b.dot_general(x, y, {}, {}, {0}, {0}, sums_in(x)); })
      .refuses(refuse_dot);
  ops.add("vdot", multiplication,
          [](Builder& b, Value x, Value y) {
            if (is_complex(x.dtype())) x = b.complex(b.real(x), b.neg(b.imag(x)));
            return b.dot_general(x, y, {}, {}, {0}, {0}, sums_in(x));
          })
      .refuses(refuse_dot);
  // The sum over `summed` of i1 * i2 * i3, each with dimensions of size 1 put in: what bilinear layers are made of.
  ops.add("_trilinear", multiplication,
          [](Builder& b, Value x, Value y, Value z, Dims expand_x, Dims expand_y, Dims expand_z, Dims summed, int64_t) {
            const Dims* const expand[] = {&expand_x, &expand_y, &expand_z};
            Value factors[] = {x, y, z};
            Dims dims;
            for (int i = 0; i < 3; ++i) {
              factors[i] = b.convert(b.expand_dims(factors[i], *expand[i]), sums_in(x));
              dims.resize(factors[i].dims().size(), 1);
              for (size_t d = 0; d < dims.size(); ++d) dims[d] = dims[d] == 1 ? factors[i].dims()[d] : dims[d];
            }
            for (Value& factor : factors) factor = b.broadcast_to(factor, dims);
            return b.reduce(hlo::Reduce::kAdd, b.mul(b.mul(factors[0], factors[1]), factors[2]), summed);
          });
  ops.add("addr", promoting, [](Builder& b, const Call& call, Value self, Value x, Value y, Factor beta, Factor alpha) {
    const Dims& dims = call.results[0]->dims;
    const Value product = b.mul(b.broadcast_in_dim(x, dims, {0}), b.broadcast_in_dim(y, dims, {1}));
    return blend(b, call, self, product, beta, alpha);
  });
}

}  // namespace tpu::ops
