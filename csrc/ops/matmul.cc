// Products of matrices and vectors. Narrow floats are multiplied exactly, summed in float32 and rounded once.
#include "ops/families.h"

namespace tpu::ops {
namespace {

constexpr Trait promoting{"promoting", true};  // operands keep their shapes

DType sums_in(Value x) { return opmath_of(x.dtype()); }

Value matmul(Builder& b, Value x, Value y) { return b.matmul(x, y, sums_in(x)); }

Value gelu(Builder& b, Value x) {
  const Value normal = b.unary("chlo.erf", b.mul(x, b.scalar(0.70710678118654752, x.dtype())));
  return b.mul(b.mul(x, b.scalar(0.5, x.dtype())), b.add(normal, b.scalar(1, x.dtype())));
}

// beta * self + alpha * product. A factor of 0 takes its side away, NaN and infinity too.
Value blend(Builder& b, const Call& call, Value self, Value product, Scalar beta, Scalar alpha) {
  const Dims& dims = call.results[0]->dims;
  Value sum = alpha.is(0) ? b.zeros({call.compute, dims}) : b.convert(product, call.compute);
  if (!alpha.is(0) && !alpha.is(1)) sum = b.mul(sum, alpha);
  if (beta.is(0)) return sum;
  const Value added = b.broadcast_to(b.convert(self, call.compute), dims);
  return b.add(beta.is(1) ? added : b.mul(added, beta), sum);
}

}  // namespace

void add_matmul(Table& ops) {
  const auto product = [](Builder& b, Value x, Value y) { return matmul(b, x, y); };
  ops.add("mm", plain, product);
  ops.add("bmm", plain, product);
  const auto product_as = [](Builder& b, Value x, Value y, DType) { return matmul(b, x, y); };
  ops.add("mm.dtype", plain, product_as);
  ops.add("bmm.dtype", plain, product_as);

  const auto add_product = [](Builder& b, const Call& call, Value self, Value x, Value y, Scalar beta, Scalar alpha) {
    return blend(b, call, self, matmul(b, x, y), beta, alpha);
  };
  ops.add("addmm", plain, add_product);
  ops.add("baddbmm", plain, add_product);
  const auto add_product_as = [](Builder& b, const Call& call, Value self, Value x, Value y, DType, Scalar beta,
                                 Scalar alpha) { return blend(b, call, self, matmul(b, x, y), beta, alpha); };
  ops.add("addmm.dtype", plain, add_product_as);
  ops.add("baddbmm.dtype", plain, add_product_as);
  ops.add("addbmm", plain, [](Builder& b, const Call& call, Value self, Value x, Value y, Scalar beta, Scalar alpha) {
    return blend(b, call, self, b.dot_general(x, y, {}, {}, {0, 2}, {0, 1}, sums_in(x)), beta, alpha);
  });
  ops.add("_addmm_activation", plain,
          [](Builder& b, const Call& call, Value self, Value x, Value y, Scalar beta, Scalar alpha, bool use_gelu) {
            const DType dtype = call.results[0]->dtype;
            const Value sum = b.convert(blend(b, call, self, matmul(b, x, y), beta, alpha), dtype);
            return use_gelu ? gelu(b, b.convert(sum, call.compute)) : b.max(sum, b.scalar(0, dtype));
          });

  ops.add("mv", plain, [](Builder& b, Value x, Value y) { return b.dot_general(x, y, {}, {}, {1}, {0}, sums_in(x)); });
  ops.add("addmv", plain, [](Builder& b, const Call& call, Value self, Value x, Value y, Scalar beta, Scalar alpha) {
    return blend(b, call, self, b.dot_general(x, y, {}, {}, {1}, {0}, sums_in(x)), beta, alpha);
  });
  ops.add("dot", plain, [](Builder& b, Value x, Value y) { return b.dot_general(x, y, {}, {}, {0}, {0}, sums_in(x)); });
  ops.add("vdot", plain, [](Builder& b, Value x, Value y) {
    if (is_complex(x.dtype())) x = b.complex(b.real(x), b.neg(b.imag(x)));
    return b.dot_general(x, y, {}, {}, {0}, {0}, sums_in(x));
  });
  ops.add("addr", promoting, [](Builder& b, const Call& call, Value self, Value x, Value y, Scalar beta, Scalar alpha) {
    const Dims& dims = call.results[0]->dims;
    const Value product = b.mul(b.broadcast_in_dim(x, dims, {0}), b.broadcast_in_dim(y, dims, {1}));
    return blend(b, call, self, product, beta, alpha);
  });
}

}  // namespace tpu::ops
