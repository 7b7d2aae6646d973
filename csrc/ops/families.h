// The families of lowerings, one function and one file each.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

void add_activation(Table& ops);
void add_adaptive_pooling(Table& ops);
void add_attention(Table& ops);
void add_bessel(Table& ops);
void add_class_loss(Table& ops);
void add_collective(Table& ops);
void add_comparison(Table& ops);
void add_convolution(Table& ops);
void add_distance(Table& ops);
void add_eig(Table& ops);
void add_embedding(Table& ops);
void add_factory(Table& ops);
void add_fourier(Table& ops);
void add_fractional_pooling(Table& ops);
void add_grid_sampler(Table& ops);
void add_histogram(Table& ops);
void add_incomplete_gamma(Table& ops);
void add_index(Table& ops);
void add_joining(Table& ops);
void add_ldl(Table& ops);
void add_linalg(Table& ops);
void add_linear_solve(Table& ops);
void add_loss(Table& ops);
void add_matmul(Table& ops);
void add_modified_bessel(Table& ops);
void add_normalization(Table& ops);
void add_optimizer(Table& ops);
void add_pointwise(Table& ops);
void add_polynomial(Table& ops);
void add_pooling(Table& ops);
void add_random(Table& ops);
void add_rearranging(Table& ops);
void add_recurrent(Table& ops);
void add_reduction(Table& ops);
void add_rejection(Table& ops);
void add_resampling(Table& ops);
void add_scan(Table& ops);
void add_scatter(Table& ops);
void add_segment(Table& ops);
void add_softmax(Table& ops);
void add_sorting(Table& ops);
void add_special(Table& ops);
void add_svd(Table& ops);
void add_unary(Table& ops);

}  // namespace tpu::ops
