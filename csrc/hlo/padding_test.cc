#include "hlo/padding.h"

#include <doctest/doctest.h>

#include <random>

namespace tpu::hlo {
namespace {

// Offsets of all elements, in the order of the tensor.
Dims elements(const Geometry& g) {
  Dims found{g.offset};
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    Dims more;
    for (const int64_t at : found) {
      for (int64_t i = 0; i < g.sizes[d]; ++i) more.push_back(at + i * g.strides[d]);
    }
    found = std::move(more);
  }
  return found;
}

// Where the element at `flat` of `logical` stands in `physical`.
int64_t placed(const Type& logical, const Type& physical, int64_t flat) {
  int64_t at = 0, place = 1;
  for (size_t d = logical.dims.size(); d-- > 0; place *= physical.dims[d], flat /= logical.dims[d]) {
    at += flat % logical.dims[d] * place;
  }
  return at;
}

}  // namespace

TEST_CASE("a geometry over a padded value has the elements that it has over what is meant") {
  std::mt19937 random(1);
  const auto pick = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
  int even = 0;
  for (int round = 0; round < 20000; ++round) {
    Type logical{DType::kF32, {}}, physical = logical;
    for (int64_t d = pick(1, 4); d-- > 0;) {
      logical.dims.push_back(pick(1, 4));
      physical.dims.push_back(logical.dims.back() + pick(0, 1) * pick(0, 3));
    }
    Dims sizes, strides;
    const int64_t offset = pick(0, logical.numel() - 1);
    int64_t last = offset;
    for (int64_t d = pick(0, 3); d-- > 0;) {
      sizes.push_back(pick(1, 3));
      strides.push_back(pick(0, logical.numel()));
      last += (sizes.back() - 1) * strides.back();
    }
    if (last >= logical.numel()) continue;
    const Geometry meant{sizes, strides, offset};
    Dims moved;
    int64_t from = 0;
    if (!place_in_padded(logical, physical, meant, moved, from)) continue;
    ++even;
    const Dims want = elements(meant), got = elements({sizes, moved, from});
    REQUIRE(want.size() == got.size());
    for (size_t i = 0; i < want.size(); ++i) REQUIRE(got[i] == placed(logical, physical, want[i]));
  }
  CHECK(even > 5000);
}

TEST_CASE("views that keep the padded dimension, or leave it out, are even; one that runs through it is not") {
  const Type logical{DType::kF32, {2, 5, 3}}, physical{DType::kF32, {2, 8, 3}};
  Dims strides;
  int64_t offset = 0;
  const auto even = [&](const Dims& sizes, const Dims& steps, int64_t from) {
    return place_in_padded(logical, physical, {sizes, steps, from}, strides, offset);
  };
  CHECK(even({5, 3, 2}, {3, 1, 15}, 0));  // transposed
  CHECK(strides == Dims{3, 1, 24});
  CHECK(even({2, 3}, {15, 1}, 12));  // the last of dimension 1
  CHECK(strides == Dims{24, 1});
  CHECK(offset == 12);
  CHECK(even({15}, {1}, 15));  // one row, flat
  CHECK(offset == 24);
  CHECK_FALSE(even({30}, {1}, 0));
  CHECK_FALSE(even({3}, {6}, 3));
  CHECK(even({0}, {1}, 30));  // nothing is anywhere
  CHECK(offset == 0);
}

}  // namespace tpu::hlo
