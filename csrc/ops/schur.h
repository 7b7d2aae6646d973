// Square matrices as z h z^H, z unitary and h triangular or nearly so. All of a batch [batch, n, n] go at once, each
// matrix at its own place in masks.
#pragma once

#include <limits>

#include "ops/pivoting.h"

namespace tpu::ops {

// a = z h z^H
struct Similar {
  Value h, z;
};

// Of a real matrix, h has blocks of two on its diagonal where eigenvalues are conjugate pairs.
struct Schur {
  Similar s;
  Value failed;  // matrices for which it did not converge
};
Schur schur(Builder& b, Value a);

// Such blocks made triangular too, with all in a complex dtype. The eigenvalue above the real axis comes first.
Similar triangular(Builder& b, const Similar& s, DType dtype);

inline double precision_of(DType dtype) {
  return real_of(dtype) == DType::kF64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}
inline Value squares(Builder& b, Value x) { return b.mul(b.abs(x), b.abs(x)); }
inline Value like(Builder& b, Value x, Value of) { return b.convert(x, of.dtype()); }

}  // namespace tpu::ops
