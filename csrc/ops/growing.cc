#include "ops/growing.h"

#include <algorithm>

#include "ops/indexing.h"

namespace tpu::ops {
namespace {

using hlo::Fill;

bool rounds(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// Operands are broadcast to results of these sizes, of which -1 is not known yet: a padded dimension of one is that of
// all, and of the results.
bool spread(Growth& g, Dims& sizes, const Dims& meant, size_t first, size_t count) {
  const auto rank = static_cast<int64_t>(meant.size());
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = first; i < first + count; ++i) {
      const Dims& dims = g.call.operands[i]->dims;
      const int64_t before = rank - static_cast<int64_t>(dims.size());
      if (before < 0) return false;
      for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] == 1) continue;
        int64_t& size = sizes[static_cast<size_t>(before) + d];
        if (pass == 1) {
          g.operands[i][d] = size;
        } else if (g.operands[i][d] != dims[d]) {
          if (size != meant[static_cast<size_t>(before) + d] && size != g.operands[i][d]) return false;
          size = g.operands[i][d];
        }
      }
    }
  }
  return true;
}

// None: all of them.
Dims reduced(const Call& call, bool& known) {
  const int64_t rank = call.operands[0]->rank();
  known = call.attributes.size() > 1;
  Dims given;
  if (known) {
    const hlo::Attr& attr = call.attributes[1];
    if (const auto* one = std::get_if<int64_t>(&attr)) {
      given = {*one};
    } else if (const auto* some = std::get_if<Dims>(&attr)) {
      given = *some;
    }
  }
  known = !given.empty();
  if (!known) {
    for (int64_t d = 0; d < rank; ++d) given.push_back(d);
  }
  for (int64_t& d : given) d = axis(d, rank);
  return given;
}

Fill neutral(Reducing how) {
  switch (how) {
    case Reducing::kSum:
    case Reducing::kAny:
    case Reducing::kCount:
    case Reducing::kMean: return Fill::kZero;
    case Reducing::kProduct:
    case Reducing::kAll: return Fill::kOne;
    case Reducing::kMax:
    case Reducing::kArgMax: return Fill::kLowest;
    case Reducing::kMin:
    case Reducing::kArgMin: return Fill::kHighest;
  }
  return Fill::kAny;
}

}  // namespace

bool grows_pointwise(Growth& g) {
  const Dims& meant = g.call.results[0]->dims;
  Dims sizes = meant;
  if (!spread(g, sizes, meant, 0, g.operands.size())) return false;
  for (size_t r = 0; r < g.results.size(); ++r) {
    if (g.call.results[r]->dims != meant) return false;
    g.results[r] = sizes;
  }
  // Parts of complex numbers are multiplied and added in one rounding here and in two there.
  const Trait& trait = static_cast<const Row*>(g.call.data)->trait;
  g.rounds = is_complex(g.call.compute) && trait.promotes && trait.widens;
  return true;
}

bool grows_reducing(Growth& g, Reducing how) {
  bool known = false;
  const int64_t rank = g.call.operands[0]->rank();
  if (how == Reducing::kAll || how == Reducing::kAny) {  // an empty list is none here
    const auto* list = g.call.attributes.size() > 1 ? std::get_if<Dims>(&g.call.attributes[1]) : nullptr;
    if (list != nullptr && list->empty()) return false;
  }
  const Dims dims = reduced(g.call, known);
  bool pads = false, pads_inside = false;
  for (const int64_t d : dims) {
    g.mask(0, d, neutral(how));
    pads = pads || g.padded(0, d);
    pads_inside = pads_inside || (d > 0 && g.padded(0, d));
  }
  if (pads && how == Reducing::kMean) return false;  // its divisor is a size
  // Without dims the position is one in all elements, which padding moves unless it comes last.
  if (!known && pads_inside && (how == Reducing::kArgMax || how == Reducing::kArgMin)) return false;
  // Compilers choose by all sizes how sums are taken, also by those of the other dimensions.
  const bool sums = how == Reducing::kSum || how == Reducing::kProduct || how == Reducing::kMean;
  g.rounds = sums && rounds(g.call.compute);
  for (size_t r = 0; r < g.results.size(); ++r) {
    const bool keeps = g.call.results[r]->rank() == rank;
    if (!keeps && g.call.results[r]->rank() != rank - static_cast<int64_t>(dims.size())) return false;
    Dims out;
    for (int64_t d = 0; d < rank; ++d) {
      const bool gone = std::ranges::find(dims, d) != dims.end();
      if (gone && keeps) out.push_back(1);
      if (!gone) out.push_back(g.operands[0][static_cast<size_t>(d)]);
    }
    g.results[r] = std::move(out);
  }
  return true;
}

namespace {

bool along(Growth& g, size_t at) {
  const Dims& meant = g.call.results[0]->dims;
  if (meant.empty()) return false;
  const int64_t dim = axis(std::get<int64_t>(g.call.attributes[at]), static_cast<int64_t>(meant.size()));
  for (size_t i = 0; i < g.operands.size(); ++i) {
    if (g.call.operands[i]->dims != meant) return false;
  }
  Dims sizes = meant;
  if (!spread(g, sizes, meant, 0, g.operands.size())) return false;
  g.rounds = true;
  for (size_t i = 0; i < g.operands.size(); ++i) g.mask(i, dim, g.operands.size() == 1 ? Fill::kLowest : Fill::kZero);
  for (Dims& result : g.results) result = sizes;
  return true;
}

bool product(Growth& g, size_t x) {
  const size_t y = x + 1;
  if (g.operands.size() != x + 2) return false;
  Dims &a = g.operands[x], &b = g.operands[y];
  const size_t rank = a.size();
  if (rank < 2 || b.size() != rank) return false;
  Dims sizes = g.call.results[0]->dims;
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (a[d] != b[d]) return false;
    sizes[d] = a[d];
  }
  if (a[rank - 1] != b[rank - 2]) return false;
  sizes[rank - 2] = a[rank - 2];
  sizes[rank - 1] = b[rank - 1];
  g.mask(x, static_cast<int64_t>(rank) - 1, Fill::kZero);
  g.mask(y, static_cast<int64_t>(rank) - 2, Fill::kZero);
  Dims common = sizes;
  if (!spread(g, common, g.call.results[0]->dims, 0, x) || common != sizes) return false;
  g.rounds = rounds(g.call.results[0]->dtype);
  g.results[0] = sizes;
  return true;
}

}  // namespace

bool grows_attention(Growth& g) {
  constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kBias = 3;
  const size_t rank = g.operands[kQuery].size(), length = rank - 2;
  const bool has_bias = !std::holds_alternative<std::monostate>(g.call.attributes[kBias]);
  for (const size_t i : {kQuery, kKey, kValue}) {
    for (size_t d = 0; d < rank; ++d) {
      if (d != length && g.padded(i, static_cast<int64_t>(d))) return false;
    }
  }
  const int64_t queries = g.operands[kQuery][length], keys = g.operands[kKey][length];
  if (g.operands[kValue][length] != keys) return false;
  g.mask(kKey, static_cast<int64_t>(length), Fill::kZero);
  g.mask(kValue, static_cast<int64_t>(length), Fill::kZero);
  const bool pads = g.padded(kKey, static_cast<int64_t>(length));
  if (has_bias) {
    Dims& bias = g.operands[kBias];
    const Dims& meant = g.call.operands[kBias]->dims;
    const size_t last = bias.size() - 1;
    if (bias.size() < 2 || (pads && meant[last] == 1)) return false;
    for (size_t d = 0; d + 1 < last; ++d) {
      if (bias[d] != meant[d]) return false;
    }
    if (meant[last] != 1) bias[last] = keys;
    if (meant[last - 1] != 1) bias[last - 1] = queries;
    g.mask(kBias, static_cast<int64_t>(last), Fill::kLowest);
  } else if (pads) {
    const Type& key = *g.call.operands[kKey];
    g.added = {kBias, key.dtype, key.dims[length], keys, Fill::kLowest};
  }
  g.results[0][length] = queries;
  g.results[1].back() = queries;
  g.rounds = true;
  return true;
}

template <size_t at>
bool grows_along(Growth& g) {
  return along(g, at);
}
template bool grows_along<1>(Growth& g);
template bool grows_along<2>(Growth& g);

template <size_t x>
bool grows_product(Growth& g) {
  return product(g, x);
}
template bool grows_product<0>(Growth& g);
template bool grows_product<1>(Growth& g);

}  // namespace tpu::ops
