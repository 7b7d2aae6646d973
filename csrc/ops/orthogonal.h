// Factorizations by what the compilers have as calls.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

// QR as LAPACK packs it.
struct Reflectors {
  Value packed, taus;
};
Reflectors reflect(Builder& b, Value a);

// The first `columns` columns of the product of the reflectors.
Value product_of(Builder& b, const Reflectors& r, int64_t columns);

struct Eigen {
  Value values, vectors;
};

// Of Hermitian matrices, in ascending order. Only one triangle of `a` is read.
Eigen eigen(Builder& b, Value a, bool lower);

}  // namespace tpu::ops
