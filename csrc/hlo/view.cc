#include "hlo/view.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "hlo/view_emit.h"

namespace tpu::hlo {
namespace {

using Digit = ViewClass::Digit;

int64_t numel(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Dimensions that move through memory, by stride, largest first; ties keep the order of the dimensions.
std::vector<int64_t> moving_dims(const ViewClass& view) {
  std::vector<int64_t> order;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] > 1 && view.strides[d] > 0) order.push_back(static_cast<int64_t>(d));
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return view.strides[a] > view.strides[b]; });
  return order;
}

// Place values of the value's own dimensions, in elements of the tensor's dtype, from the whole size down to 1.
Dims own_places(const Type& base, DType dtype) {
  Dims places;
  int64_t place = base.bytes() / size_of(dtype);
  places.push_back(place);
  const int64_t from = size_of(base.dtype), to = size_of(dtype);
  for (size_t i = 0; i < base.dims.size(); ++i) {
    int64_t rest = from;  // bytes of one step of dimension i
    for (size_t j = i + 1; j < base.dims.size(); ++j) rest *= base.dims[j];
    if (rest % to != 0) break;
    if (rest / to < places.back()) places.push_back(rest / to);
  }
  if (places.back() != 1) places.push_back(1);
  return places;
}

// Digits that hold every moving dimension, or nothing. `split` cuts a digit at each stride that divides it, so that a
// step becomes a digit of its own; otherwise only where two dimensions share one.
std::optional<std::vector<Digit>> find_digits(const ViewClass& view, Dims places, bool split) {
  const std::vector<int64_t> dims = moving_dims(view);
  for (int64_t d : dims) {
    const int64_t s = view.strides[d], last = s * (view.sizes[d] - 1);
    std::erase_if(places, [&](int64_t p) { return s < p && p <= last && p != places.front(); });
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t s = view.strides[dims[i]];
    if (std::find(places.begin() + 1, places.end(), s) != places.end()) continue;
    const auto below = std::find_if(places.begin() + 1, places.end(), [&](int64_t p) { return p <= s; });
    if (below == places.end() || s % *below != 0) return std::nullopt;
    const int64_t above = *(below - 1);
    const bool shared = i + 1 < dims.size() && view.strides[dims[i + 1]] >= *below;
    if (above % s == 0 && (split || shared)) {
      places.insert(below, s);
    } else if (shared) {
      return std::nullopt;
    }
  }
  std::vector<Digit> digits;
  for (size_t k = 0; k + 1 < places.size(); ++k) {
    if (places[k] % places[k + 1] != 0) return std::nullopt;
    digits.push_back({.place = places[k + 1], .size = places[k] / places[k + 1]});
  }
  for (int64_t d : dims) {
    const int64_t s = view.strides[d];
    const auto digit = std::find_if(digits.begin(), digits.end(), [&](const Digit& x) { return x.place <= s; });
    if (digit == digits.end() || digit->dim >= 0 || s % digit->place != 0) return std::nullopt;
    digit->dim = d;
    digit->step = s / digit->place;
    digit->count = view.sizes[d];
    if (digit->span() > digit->size) return std::nullopt;
  }
  if (digits.size() > kMaxDigits) return std::nullopt;
  return digits;
}

void finish(ViewClass& view) {
  const bool empty = numel(view.sizes) == 0;
  view.start_dtype = view.base->bytes() / size_of(view.dtype) < (int64_t{1} << 31) ? DType::kS32 : DType::kS64;
  int64_t last_dim = -1;
  view.covers = !view.gathers && !view.overlaps && !empty;
  bool ordered = true;
  for (const Digit& digit : view.digits) {
    view.covers = view.covers && digit.count == digit.size;
    if (digit.dim >= 0) {
      ordered = ordered && digit.dim > last_dim;
      last_dim = digit.dim;
    }
    view.num_starts += digit.dynamic();
  }
  if (view.gathers) view.num_starts = 1;
  view.identity = view.covers && ordered && view.dtype == view.base->dtype;
  make_view_calls(view);
}

struct Key {
  const Type* base;
  DType dtype;
  Dims sizes_and_strides;
  bool operator==(const Key&) const = default;
};
struct KeyView {
  const Type* base;
  DType dtype;
  const Geometry& geometry;
};
struct KeyHash {
  using is_transparent = void;
  static uint64_t fold(uint64_t h, std::span<const int64_t> v) {
    for (int64_t d : v) h = mix(h, static_cast<uint64_t>(d));
    return h;
  }
  size_t operator()(const Key& k) const {
    return fold(mix(reinterpret_cast<uintptr_t>(k.base), static_cast<uint64_t>(k.dtype)), k.sizes_and_strides);
  }
  size_t operator()(const KeyView& k) const {
    const uint64_t h = mix(reinterpret_cast<uintptr_t>(k.base), static_cast<uint64_t>(k.dtype));
    return fold(fold(h, k.geometry.sizes), k.geometry.strides);
  }
};
struct KeyEqual {
  using is_transparent = void;
  bool operator()(const Key& a, const Key& b) const { return a == b; }
  bool operator()(const KeyView& a, const Key& b) const {
    const size_t n = a.geometry.sizes.size();
    return a.base == b.base && a.dtype == b.dtype && b.sizes_and_strides.size() == 2 * n &&
           std::equal(a.geometry.sizes.begin(), a.geometry.sizes.end(), b.sizes_and_strides.begin()) &&
           std::equal(a.geometry.strides.begin(), a.geometry.strides.end(), b.sizes_and_strides.begin() + n);
  }
  bool operator()(const Key& a, const KeyView& b) const { return (*this)(b, a); }
};

// Candidates in the order in which they are tried; the last one fits any offset.
using Candidates = std::vector<std::unique_ptr<const ViewClass>>;

Candidates make_candidates(const Type* base, DType dtype, const Geometry& geometry) {
  ViewClass view;
  view.base = base;
  view.dtype = dtype;
  view.sizes.assign(geometry.sizes.begin(), geometry.sizes.end());
  view.strides.assign(geometry.strides.begin(), geometry.strides.end());
  int64_t reach = 0;  // the farthest element of the dimensions with smaller strides
  std::vector<int64_t> dims = moving_dims(view);
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    view.overlaps = view.overlaps || view.strides[*d] <= reach;
    reach += view.strides[*d] * (view.sizes[*d] - 1);
  }
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    view.overlaps = view.overlaps || (view.sizes[d] > 1 && view.strides[d] == 0);
  }
  Candidates found;
  std::vector<std::vector<Digit>> seen;
  const auto same = [](const Digit& a, const Digit& b) { return a.place == b.place && a.size == b.size; };
  const int64_t whole = base->bytes() / size_of(dtype);
  if (numel(view.sizes) > 0) {
    const auto attempt = [&](const Dims& places, bool split) {
      auto digits = find_digits(view, places, split);
      if (!digits) return;
      for (const auto& old : seen) {
        if (std::equal(old.begin(), old.end(), digits->begin(), digits->end(), same)) return;
      }
      seen.push_back(*digits);
      auto candidate = std::make_unique<ViewClass>(view);
      candidate->digits = std::move(*digits);
      finish(*candidate);
      found.push_back(std::move(candidate));
    };
    const Dims own = own_places(*base, dtype);
    attempt(own, true);
    attempt(own, false);
    attempt({whole, 1}, true);
    attempt({whole, 1}, false);
  }
  if (found.empty() || found.front()->num_starts > 0) {
    auto gather = std::make_unique<ViewClass>(view);
    gather->gathers = true;
    finish(*gather);
    found.push_back(std::move(gather));
  }
  return found;
}

bool fits(const ViewClass& view, int64_t offset, int64_t* starts) {
  if (view.gathers) {
    *starts = offset;
    return true;
  }
  for (const Digit& digit : view.digits) {
    const int64_t start = offset / digit.place;
    offset -= start * digit.place;
    if (start + digit.span() > digit.size) return false;
    if (digit.dynamic()) *starts++ = start;
  }
  return true;
}

}  // namespace

const ViewClass* classify(const Type* base, DType dtype, const Geometry& geometry, int64_t* starts) {
  static auto* const mutex = new std::mutex;
  static auto* const table = new std::unordered_map<Key, Candidates, KeyHash, KeyEqual>;
  const std::lock_guard lock(*mutex);
  auto at = table->find(KeyView{base, dtype, geometry});
  if (at == table->end()) {
    Key key{base, dtype, {geometry.sizes.begin(), geometry.sizes.end()}};
    key.sizes_and_strides.insert(key.sizes_and_strides.end(), geometry.strides.begin(), geometry.strides.end());
    at = table->emplace(std::move(key), make_candidates(base, dtype, geometry)).first;
  }
  for (const auto& candidate : at->second) {
    if (fits(*candidate, geometry.offset, starts)) return candidate.get();
  }
  return at->second.back().get();  // an offset 0 of a class without starts: always fits
}

}  // namespace tpu::hlo
