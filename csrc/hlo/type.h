// The type of a dense array: element type and sizes, row-major.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tpu::hlo {

using Dims = std::vector<int64_t>;

struct Type {
  DType dtype = DType::kF32;
  Dims dims;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  int64_t bytes() const { return numel() * size_of(dtype); }
  bool operator==(const Type&) const = default;
  // "tensor<2x3xf32>"
  std::string str() const;
};

// One address per distinct type for the life of the process, so that types compare as pointers on the hot path.
const Type* intern(const Type& type);

}  // namespace tpu::hlo
