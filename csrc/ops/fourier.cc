// Discrete Fourier transforms. StableHLO transforms the innermost dimensions, three at most; others are moved there.
#include <algorithm>
#include <cmath>

#include "ops/families.h"

namespace tpu::ops {
namespace {

using hlo::Fft;

int64_t at(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

// One transform over one dimension.
Value transform(Builder& b, Value x, Fft kind, int64_t dim, int64_t length) {
  Dims order;
  for (int64_t d = 0; d < x.rank(); ++d) order.push_back(d);
  std::swap(order[static_cast<size_t>(dim)], order.back());
  return b.transpose(b.fft(b.transpose(x, order), kind, {length}), order);
}

// StableHLO divides inverse transforms by their length, PyTorch as `normalization` says: not (0), by the square root of
// the number of elements (1), by that number (2).
Value normalized(Builder& b, Value x, int64_t normalization, double elements, double divided_by) {
  const double by = normalization == 0 ? 1 : normalization == 1 ? std::sqrt(elements) : elements;
  if (by == divided_by) return x;
  const Value factor = b.scalar(divided_by / by, real_of(x.dtype()));
  if (!is_complex(x.dtype())) return b.mul(x, factor);
  return b.complex(b.mul(b.real(x), factor), b.mul(b.imag(x), factor));
}

double elements_of(const Dims& sizes, const Dims& dims) {
  double n = 1;
  for (const int64_t d : dims) n *= static_cast<double>(sizes[static_cast<size_t>(at(d, int64_t(sizes.size())))]);
  return n;
}

}  // namespace

void add_fourier(Table& ops) {
  ops.add("_fft_c2c", plain, [](Builder& b, Value x, Dims dims, int64_t normalization, bool forward) {
    if (x.numel() == 0) return x;
    const double n = elements_of(x.dims(), dims);
    for (const int64_t d : dims) {
      const int64_t dim = at(d, x.rank());
      x = transform(b, x, forward ? Fft::kFft : Fft::kIfft, dim, x.dim(dim));
    }
    return normalized(b, x, normalization, n, forward ? 1 : n);
  });
  ops.add("_fft_r2c", plain,
          [](Builder& b, const Call& call, Value x, Dims dims, int64_t normalization, bool onesided) {
            if (x.numel() == 0) return b.zeros(*call.results[0]);
            const double n = elements_of(x.dims(), dims);
            if (!onesided) {
              x = b.convert(x, complex_of(x.dtype()));
            } else {
              const int64_t last = at(dims.back(), x.rank());
              x = transform(b, x, Fft::kRfft, last, x.dim(last));
              dims.pop_back();
            }
            for (const int64_t d : dims) {
              const int64_t dim = at(d, x.rank());
              x = transform(b, x, Fft::kFft, dim, x.dim(dim));
            }
            return normalized(b, x, normalization, n, 1);
          });
  ops.add("_fft_c2r", plain,
          [](Builder& b, const Call& call, Value x, Dims dims, int64_t normalization, int64_t length) {
            if (x.numel() == 0) return b.zeros(*call.results[0]);
            const double n = elements_of(call.results[0]->dims, dims);
            const int64_t last = at(dims.back(), x.rank());
            dims.pop_back();
            for (const int64_t d : dims) {
              const int64_t dim = at(d, x.rank());
              x = transform(b, x, Fft::kIfft, dim, x.dim(dim));
            }
            x = b.slice_dim(x, last, 0, length / 2 + 1);
            return normalized(b, transform(b, x, Fft::kIrfft, last, length), normalization, n, n);
          });
}

}  // namespace tpu::ops
