#include "hlo/view.h"

#include <doctest/doctest.h>

#include <random>

namespace tpu::hlo {
namespace {

// A chain of PyTorch views over a dense base, as sizes, strides and offset.
struct Chain {
  Dims sizes, strides;
  int64_t offset = 0;
  std::mt19937 random;

  explicit Chain(const Dims& base, unsigned seed) : sizes(base), strides(base.size()), random(seed) {
    int64_t stride = 1;
    for (size_t d = base.size(); d-- > 0; stride *= base[d]) strides[d] = stride;
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); }
  void step() {
    if (sizes.empty()) return;
    const auto d = static_cast<size_t>(below(static_cast<int64_t>(sizes.size())));
    switch (below(5)) {
      case 0: {  // slice, perhaps with a step
        const int64_t start = below(sizes[d]), step = 1 + below(2), n = 1 + (sizes[d] - start - 1) / step;
        offset += start * strides[d];
        sizes[d] = 1 + below(n);
        strides[d] *= step;
        break;
      }
      case 1: {  // transpose
        const auto e = static_cast<size_t>(below(static_cast<int64_t>(sizes.size())));
        std::swap(sizes[d], sizes[e]);
        std::swap(strides[d], strides[e]);
        break;
      }
      case 2:  // select
        offset += below(sizes[d]) * strides[d];
        sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(d));
        strides.erase(strides.begin() + static_cast<ptrdiff_t>(d));
        break;
      case 3:  // split a dimension in two
        if (sizes[d] % 2 == 0) {
          sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(d), sizes[d] / 2);
          strides.insert(strides.begin() + static_cast<ptrdiff_t>(d), strides[d] * 2);
          sizes[d + 1] = 2;
        }
        break;
      case 4:  // unsqueeze and expand
        sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(d), 1 + below(2));
        strides.insert(strides.begin() + static_cast<ptrdiff_t>(d), 0);
        break;
    }
  }
  Geometry geometry() const { return {sizes, strides, offset}; }
};

const ViewClass* find(const Type& base, const Geometry& geometry, int64_t* starts) {
  return classify(intern(base), base.dtype, geometry, starts);
}

// Whether digits and starts name the same element of the base as strides and offset do, for every index.
bool agrees(const ViewClass& view, const Geometry& geometry, const int64_t* starts) {
  int64_t first = 0;
  for (const auto& digit : view.digits) {
    if (digit.dynamic()) first += *starts++ * digit.place;
  }
  Dims strides(geometry.sizes.size(), 0);
  for (const auto& digit : view.digits) {
    if (digit.dim >= 0) strides[static_cast<size_t>(digit.dim)] = digit.place * digit.step;
  }
  for (size_t d = 0; d < strides.size(); ++d) {
    if (geometry.sizes[d] > 1 && strides[d] != geometry.strides[d]) return false;
  }
  return first == geometry.offset;
}

TEST_CASE("every chain of views reads the elements that its strides name, and few need a gather") {
  int gathers = 0, chains = 0;
  for (unsigned seed = 0; seed < 5000; ++seed) {
    const Dims bases[] = {{4, 6}, {8}, {2, 3, 4}, {6, 1, 10}, {2, 2, 2, 2}};
    const Type base{DType::kF32, bases[seed % 5]};
    Chain chain(base.dims, seed);
    for (int i = 0; i < 5; ++i) chain.step();
    int64_t starts[kMaxDigits] = {};
    const ViewClass* view = find(base, chain.geometry(), starts);
    ++chains;
    if (view->gathers) {
      ++gathers;
      CHECK(starts[0] == chain.offset);
    } else {
      CHECK_MESSAGE(agrees(*view, chain.geometry(), starts), "seed " << seed);
    }
  }
  CHECK(gathers < chains / 20);
}

TEST_CASE("a new offset of the same slice is the same class") {
  const Type base{DType::kF32, {10, 4}};
  const Dims sizes{4}, strides{1};
  int64_t starts[kMaxDigits] = {};
  const ViewClass* first = find(base, {sizes, strides, 0}, starts);
  CHECK_FALSE(first->gathers);
  for (int64_t row = 1; row < 10; ++row) {
    CHECK(find(base, {sizes, strides, row * 4}, starts) == first);
    CHECK(starts[0] == row);
  }
}

TEST_CASE("an offset that crosses a row is another class") {
  const Type base{DType::kF32, {4, 6}};
  const Dims sizes{2, 3}, strides{6, 1};
  int64_t starts[kMaxDigits] = {};
  CHECK_FALSE(find(base, {sizes, strides, 3}, starts)->gathers);
  CHECK(find(base, {sizes, strides, 4}, starts)->gathers);
}

TEST_CASE("a whole permutation covers, an expand overlaps") {
  const Type base{DType::kF32, {4, 6}};
  int64_t starts[kMaxDigits] = {};
  const Dims turned{6, 4}, turned_strides{1, 6}, wide{3, 24}, wide_strides{0, 1}, flat{24}, one{1};
  const ViewClass* transposed = find(base, {turned, turned_strides, 0}, starts);
  CHECK(transposed->covers);
  CHECK_FALSE(transposed->identity);
  CHECK(find(base, {flat, one, 0}, starts)->identity);
  CHECK(find(base, {wide, wide_strides, 0}, starts)->overlaps);
}

}  // namespace
}  // namespace tpu::hlo
