// Sorting, order statistics, and what looks values up in sorted sequences.
#include "ops/families.h"
#include "ops/reducing.h"
#include "ops/refusing.h"
#include "ops/search.h"

namespace tpu::ops {

Value search(Builder& b, Value sorted, Value v, bool right) {
  constexpr int64_t kFew = 64;  // so many are compared at once
  const int64_t n = sorted.dim(-1);
  const auto goes_on = [&](Value element, Value wanted) {  // as std::lower_bound; also for NaN
    return b.not_(right ? b.gt(element, wanted) : b.ge(element, wanted));
  };
  const bool shared = sorted.rank() == 1;
  if (n == 0) return b.zeros({DType::kS32, v.dims()});
  if (n <= kFew) {
    Dims cube = v.dims(), value_dims, row_dims;
    cube.push_back(n);
    for (int64_t d = 0; d < v.rank(); ++d) value_dims.push_back(d);
    for (int64_t d = 0; !shared && d < v.rank() - 1; ++d) row_dims.push_back(d);
    row_dims.push_back(v.rank());
    const Value passed = goes_on(b.broadcast_in_dim(sorted, cube, row_dims), b.broadcast_in_dim(v, cube, value_dims));
    return b.reduce(hlo::Reduce::kAdd, b.convert(passed, DType::kS32), {v.rank()});
  }
  const Value one = b.scalar(1, DType::kS32);
  Value low = b.zeros({DType::kS32, v.dims()}), high = b.full_like(low, static_cast<double>(n));
  for (int64_t left = n; left > 0; left /= 2) {
    const Value middle = b.add(low, b.shr_logical(b.sub(high, low), b.broadcast_to(one, v.dims())));
    const Value element = shared ? take_each(b, sorted, middle) : take_along(b, sorted, middle, v.rank() - 1);
    const Value open = b.lt(low, high), on = b.and_(open, goes_on(element, v));
    high = b.select(b.and_(open, b.not_(on)), middle, high);
    low = b.select(on, b.add(middle, one), low);
  }
  return low;
}

namespace {

using hlo::Reduce;

struct Sorted {
  Value values, index;
};

// PyTorch's order: NaN is the greatest. Equal elements keep their order.
Sorted sort(Builder& b, Value x, int64_t dim, bool descending) {
  if (x.dim(dim) <= 1) return {x, b.zeros({DType::kS32, x.dims()})};
  const auto before = [&](const Values& v) -> Values {
    const Value lo = descending ? v[1] : v[0], hi = descending ? v[0] : v[1];
    const Value less = b.lt(lo, hi);
    if (!is_float(x.dtype())) return {less};
    return {b.or_(less, b.and_(b.is_nan(hi), b.not_(b.is_nan(lo))))};
  };
  const Values out = b.sort({x, iota_like(b, x, dim)}, dim, true, before);
  return {out[0], out[1]};
}

// The element at `at` of each row along `dim`; `at` has size 1 there, or is one number for all.
Value pick(Builder& b, Value x, Value at, int64_t dim) {
  if (at.rank() != 0) return take_along(b, x, at, dim);
  Values starts(x.dims().size(), b.scalar_int(0, at.dtype()));
  starts[static_cast<size_t>(dim)] = at;
  Dims sizes = x.dims();
  sizes[static_cast<size_t>(dim)] = 1;
  return b.dynamic_slice(x, starts, sizes);
}

Values fit(Builder& b, const Call& call, const Sorted& s) {
  return {b.reshape(s.values, call.results[0]->dims), b.reshape(s.index, call.results[1]->dims)};
}

// --- the largest few
// --------------------------------------------------------------------------------------------------

Sorted top(Builder& b, Value x, int64_t k, int64_t dim, bool largest) {
  const Sorted s = sort(b, x, dim, largest);
  return {b.slice_dim(s.values, dim, 0, k), b.slice_dim(s.index, dim, 0, k)};
}

// --- medians
// ----------------------------------------------------------------------------------------------------------

// The lower median along `dim`. NaN is one if there is any, unless NaNs are left out.
Sorted median(Builder& b, Value x, int64_t dim, bool skip_nan) {
  const Sorted s = sort(b, x, dim, false);
  const int64_t n = x.dim(dim);
  if (!is_float(x.dtype())) {
    const int64_t at = (n - 1) / 2;
    return {b.slice_dim(s.values, dim, at, at + 1), b.slice_dim(s.index, dim, at, at + 1)};
  }
  // NaNs stand last.
  Dims row = x.dims();
  row[static_cast<size_t>(dim)] = 1;
  const Value real = b.convert(b.not_(b.is_nan(x)), DType::kS32);
  const Value reals = b.reshape(b.reduce(Reduce::kAdd, real, {dim}), row);
  const Value zero = b.scalar(0, DType::kS32), one = b.scalar(1, DType::kS32), two = b.scalar(2, DType::kS32);
  Value at = b.max(b.div(b.sub(reals, one), two), zero);
  if (!skip_nan) at = b.select(b.lt(reals, b.scalar_int(n, DType::kS32)), reals, at);
  return {pick(b, s.values, at, dim), pick(b, s.index, at, dim)};
}

template <bool skip_nan>
void add_median(Table& ops, const char* all, const char* along) {
  ops.add(all, plain,
          [](Builder& b, const Call& call, Value x) {
            if (x.numel() == 0)
              return b.full(is_float(x.dtype()) ? std::numeric_limits<double>::quiet_NaN() : 0, x.dtype(), {});
            return b.reshape(median(b, b.flatten(x), 0, skip_nan).values, call.results[0]->dims);
          })
      .refuses(is_not_bool);
  ops.add(along, plain,
          [](Builder& b, const Call& call, Value x, int64_t dim, bool) {
            return fit(b, call, median(b, at_least_1d(b, x), axis(dim, x.rank()), skip_nan));
          })
      .refuses([](const Call& call) {
        TPU_RETURN_IF_ERROR(is_not_bool(call));
        return has_elements(call);
      });
}

// The most frequent value, the least of several; and where it stands last.
Sorted mode(Builder& b, Value x, int64_t dim) {
  const Sorted s = sort(b, x, dim, false);
  const int64_t n = x.dim(dim);
  if (n <= 1) return s;
  const Value at = iota_like(b, x, dim);
  Dims pad(x.dims().size(), 0), cut(x.dims().size(), 0);
  pad[static_cast<size_t>(dim)] = 1;
  const Value same = b.eq(b.slice_dim(s.values, dim, 1, n), b.slice_dim(s.values, dim, 0, n - 1));
  const Value follows = b.pad(same, b.scalar(0, DType::kBool), pad, cut);
  const Value start = b.cumulative(Reduce::kMax, b.select(follows, b.zeros_like(at), at), dim);
  const Value end = extremum(b, Reduce::kMax, b.sub(at, start), dim).index;
  Dims row = x.dims();
  row[static_cast<size_t>(dim)] = 1;
  const Value index = b.reshape(end, row);
  return {pick(b, s.values, index, dim), pick(b, s.index, index, dim)};
}

void add_order_statistics(Table& ops) {
  ops.add("kthvalue", plain,
          [](Builder& b, const Call& call, Value x, int64_t k, int64_t dim, bool) {
            dim = axis(dim, x.rank());
            const Sorted s = sort(b, at_least_1d(b, x), dim, false);
            return fit(b, call, Sorted{b.slice_dim(s.values, dim, k - 1, k), b.slice_dim(s.index, dim, k - 1, k)});
          })
      .refuses([](const Call& call) { return has_elements(call, 2); });
  add_median<false>(ops, "median", "median.dim");
  add_median<true>(ops, "nanmedian", "nanmedian.dim");
  ops.add("mode", plain,
          [](Builder& b, const Call& call, Value x, int64_t dim, bool) {
            return fit(b, call, mode(b, at_least_1d(b, x), axis(dim, x.rank())));
          })
      .refuses([](const Call& call) { return has_elements(call); });
}

// --- looking up
// -------------------------------------------------------------------------------------------------------

bool is_right(bool right, const optional<std::string>& side) { return side ? *side == "right" : right; }

// Sequences and values are compared in their common dtype.
inline constexpr Trait lookup{"lookup", true, false, false};

void add_searches(Table& ops) {
  const auto one_row = [](const Call& call) {
    const int64_t rank = call.operands.back()->rank();
    return rank == 1 ? Status()
                     : invalid("boundaries tensor must be 1 dimension, but got dim(" + std::to_string(rank) + ")");
  };
  ops.add("searchsorted.Tensor", lookup,
          [](Builder& b, const Call& call, Value sorted, Value v, bool, bool right, optional<std::string> side,
             optional<Raw> sorter) {
            if (sorter) sorted = take_along(b, sorted, *sorter, sorted.rank() - 1);
            const Value flat = v.rank() == 0 ? b.reshape(v, {1}) : v;
            return b.reshape(search(b, sorted, flat, is_right(right, side)), call.results[0]->dims);
          });
  ops.add("searchsorted.Scalar", lookup,
          [](Builder& b, const Call& call, Value sorted, Scalar v, bool, bool right, optional<std::string> side,
             optional<Raw> sorter) {
            if (sorter) sorted = take_along(b, sorted, *sorter, sorted.rank() - 1);
            return b.reshape(search(b, sorted, b.reshape(v, {1}), is_right(right, side)), call.results[0]->dims);
          });
  ops.add("bucketize.Tensor", lookup,
          [](Builder& b, const Call& call, Value v, Value sorted, bool, bool right) {
            return b.reshape(search(b, sorted, at_least_1d(b, v), right), call.results[0]->dims);
          })
      .refuses(one_row);
  ops.add("bucketize.Scalar", lookup,
          [](Builder& b, const Call& call, Scalar v, Value sorted, bool, bool right) {
            return b.reshape(search(b, sorted, b.reshape(v, {1}), right), call.results[0]->dims);
          })
      .refuses(one_row);
  ops.add("histc", reduction,
          [](Builder& b, Value x, int64_t bins, Scalar min, Scalar max) {
            x = b.flatten(x);
            Value low = min, high = max;
            if (x.numel() > 0) {
              const Value unset = b.eq(low, high);
              low = b.select(unset, b.reduce(Reduce::kMin, x, {0}), low);
              high = b.select(unset, b.reduce(Reduce::kMax, x, {0}), high);
            }
            const Value flat = b.eq(low, high), one = b.scalar(1, x.dtype());
            low = b.select(flat, b.sub(low, one), low);
            high = b.select(flat, b.add(high, one), high);
            const Value inside = b.and_(b.ge(x, low), b.le(x, high));
            const Value share = b.div(b.sub(x, low), b.sub(high, low));
            const Value bin = b.convert(b.mul(share, b.scalar(static_cast<double>(bins), x.dtype())), DType::kS32);
            const Value last = b.scalar_int(bins - 1, DType::kS32);
            // What lies outside is dropped: its index is out of bounds.
            const Value at = b.select(inside, b.min(bin, last), b.scalar_int(bins, DType::kS32));
            return b.scatter(b.zeros({x.dtype(), {bins}}), at, b.full_like(x, 1),
                             {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1},
                             [&](const Values& v) { return Values{b.add(v[0], v[1])}; });
          })
      .refuses(is_inexact);
}

}  // namespace

void add_sorting(Table& ops) {
  ops.add("sort.stable", plain,
          [](Builder& b, const Call& call, Value x, optional<bool>, int64_t dim, bool descending) {
            return fit(b, call, sort(b, at_least_1d(b, x), axis(dim, x.rank()), descending));
          })
      .refuses([](const Call& call) {
        TPU_RETURN_IF_ERROR(is_ordered(call));
        return dim_exists(call, 2);
      });
  ops.add("topk", plain,
          [](Builder& b, const Call& call, Value x, int64_t k, int64_t dim, bool largest, bool) {
            // Of a number there is one, however many are asked for.
            return fit(b, call, top(b, at_least_1d(b, x), x.rank() == 0 ? 1 : k, axis(dim, x.rank()), largest));
          })
      .refuses([](const Call& call) {
        TPU_RETURN_IF_ERROR(is_ordered(call));
        TPU_RETURN_IF_ERROR(is_not_bool(call));
        TPU_RETURN_IF_ERROR(dim_exists(call, 2));
        const Dims& dims = call.operands[0]->dims;
        const int64_t k = std::get<int64_t>(call.attributes[1]),
                      dim = axis(std::get<int64_t>(call.attributes[2]), call.operands[0]->rank());
        return 0 <= k && k <= (dims.empty() ? 1 : dims[static_cast<size_t>(dim)])
                   ? Status()
                   : invalid("selected index k out of range");
      });
  add_order_statistics(ops);
  add_searches(ops);
}

}  // namespace tpu::ops
