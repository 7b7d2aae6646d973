#include "ops/families.h"

namespace tpu::ops {

const Table& table() {
  static const Table* const table = [] {
    auto* t = new Table;
    add_activation(*t);
    add_adaptive_pooling(*t);
    add_attention(*t);
    add_bessel(*t);
    add_class_loss(*t);
    add_collective(*t);
    add_comparison(*t);
    add_convolution(*t);
    add_distance(*t);
    add_eig(*t);
    add_embedding(*t);
    add_factory(*t);
    add_fourier(*t);
    add_fractional_pooling(*t);
    add_grid_sampler(*t);
    add_histogram(*t);
    add_incomplete_gamma(*t);
    add_index(*t);
    add_joining(*t);
    add_ldl(*t);
    add_linalg(*t);
    add_linear_solve(*t);
    add_loss(*t);
    add_matmul(*t);
    add_modified_bessel(*t);
    add_normalization(*t);
    add_optimizer(*t);
    add_pointwise(*t);
    add_polynomial(*t);
    add_pooling(*t);
    add_random(*t);
    add_rearranging(*t);
    add_recurrent(*t);
    add_reduction(*t);
    add_rejection(*t);
    add_resampling(*t);
    add_scan(*t);
    add_scatter(*t);
    add_segment(*t);
    add_softmax(*t);
    add_sorting(*t);
    add_special(*t);
    add_svd(*t);
    add_unary(*t);
    return t;
  }();
  return *table;
}

}  // namespace tpu::ops
