#include "aten/dynamic.h"

namespace tpu::aten {

void prepare_index(torch::jit::Stack*) {}
void prepare_index_put(torch::jit::Stack*) {}

}  // namespace tpu::aten
