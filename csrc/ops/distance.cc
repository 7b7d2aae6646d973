// p-norms of differences: cdist of all pairs from two sets, pdist of all pairs in one. No difference is kept: the
// reduction takes it up.
#include <algorithm>
#include <cmath>

#include "ops/families.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

// Over the last dimension.
Value norm(Builder& b, Value difference, double p) {
  const Value a = b.abs(difference);
  const Dims last = {a.rank() - 1};
  if (std::isinf(p)) return a.dim(-1) == 0 ? b.reduce(Reduce::kAdd, a, last) : b.reduce(Reduce::kMax, a, last);
  if (p == 0) return b.reduce(Reduce::kAdd, b.convert(b.convert(a, DType::kBool), a.dtype()), last);
  if (p == 1) return b.reduce(Reduce::kAdd, a, last);
  if (p == 2) return b.sqrt(b.reduce(Reduce::kAdd, b.mul(a, a), last));
  return b.pow(b.reduce(Reduce::kAdd, b.pow(a, b.scalar(p, a.dtype())), last), b.scalar(1 / p, a.dtype()));
}

// The gradient of a difference: that of its norm times the norm's slope. Where the norm has none, 0.
Value norm_backward(Builder& b, Value grad, Value difference, Value distance, double p) {
  const DType dtype = difference.dtype();
  const Value zero = b.scalar(0, dtype), size = b.abs(difference), sign = b.sign(difference);
  if (p == 0) return b.zeros_like(difference);
  if (p == 1) return b.mul(grad, sign);
  if (std::isinf(p)) return b.select(b.eq(size, distance), b.mul(grad, sign), zero);
  const Value flat = b.eq(distance, zero);
  if (p == 2) return b.select(flat, zero, b.div(b.mul(grad, difference), distance));
  const Value power = b.scalar(p - 1, dtype);
  const Value slope = b.div(b.mul(b.mul(sign, b.pow(size, power)), grad), b.pow(distance, power));
  return b.select(p < 1 ? b.or_(flat, b.eq(size, zero)) : flat, zero, slope);
}

// x [.., n, m] and y [.., k, m] beside each other as [.., n, k, m].
struct Pairs {
  Value x, y;
  Pairs(Builder& b, Value from, Value to, const Dims& batch) {
    const int64_t n = from.dim(-2), k = to.dim(-2), m = from.dim(-1);
    Dims dims = batch, one = batch, other = batch;
    dims.insert(dims.end(), {n, k, m});
    one.insert(one.end(), {n, m});
    other.insert(other.end(), {k, m});
    Dims mapping;
    for (int64_t d = 0; d < static_cast<int64_t>(batch.size()); ++d) mapping.push_back(d);
    const auto r = static_cast<int64_t>(batch.size());
    Dims of_x = mapping, of_y = mapping;
    of_x.insert(of_x.end(), {r, r + 2});
    of_y.insert(of_y.end(), {r + 1, r + 2});
    x = b.broadcast_in_dim(b.broadcast_to(from, one), dims, of_x);
    y = b.broadcast_in_dim(b.broadcast_to(to, other), dims, of_y);
  }
};

Dims without_last_two(const Dims& dims) { return {dims.begin(), dims.end() - 2}; }

// A value per pair, beside every element.
Value spread(Builder& b, Value per_pair, const Dims& dims) {
  Dims mapping;
  for (int64_t d = 0; d < per_pair.rank(); ++d) mapping.push_back(d);
  return b.broadcast_in_dim(per_pair, dims, mapping);
}

// Where the pair (row, column) with row < column stands in the list of all such pairs of n.
Value place(Builder& b, Value row, Value column, int64_t n) {
  const auto number = [&](int64_t v) { return b.scalar_int(v, DType::kS64); };
  const Value before = b.div(b.mul(row, b.sub(number(2 * n - 1), row)), number(2));
  return b.add(before, b.sub(b.sub(column, row), number(1)));
}

// Elements of a list at `where`.
Value take(Builder& b, Value list, Value where) {
  Dims dims = where.dims();
  Dims with_index = dims;
  with_index.push_back(1);
  return b.gather(list, b.reshape(where, with_index),
                  {.collapsed = {0}, .start_index_map = {0}, .index_vector_dim = static_cast<int64_t>(dims.size())},
                  {1});
}

struct Square {
  Value row, column;
  Square(Builder& b, int64_t n) : row(b.iota(DType::kS64, {n, n}, 0)), column(b.iota(DType::kS64, {n, n}, 1)) {}
};

}  // namespace

void add_distance(Table& ops) {
  ops.add("_cdist_forward", contraction,
          [](Builder& b, const Call& call, Value x, Value y, double p, optional<int64_t>) {
            const Pairs pairs(b, x, y, without_last_two(call.results[0]->dims));
            return norm(b, b.sub(pairs.x, pairs.y), p);
          });
  ops.add("_cdist_backward", contraction,
          [](Builder& b, const Call& call, Value grad, Value x, Value y, double p, Value distance) {
            const Dims& dims = call.results[0]->dims;
            if (call.results[0]->numel() == 0 || distance.numel() == 0) return b.zeros(*call.results[0]);
            const Pairs pairs(b, x, y, without_last_two(dims));
            const Value difference = b.sub(pairs.x, pairs.y);
            const Value g = norm_backward(b, spread(b, grad, difference.dims()), difference,
                                          spread(b, distance, difference.dims()), p);
            return b.reduce(Reduce::kAdd, g, {g.rank() - 2});
          });
  ops.add("_pdist_forward", contraction, [](Builder& b, const Call& call, Value x, double p) {
    const int64_t n = x.dim(0);
    if (call.results[0]->numel() == 0) return b.zeros(*call.results[0]);
    const Pairs pairs(b, x, x, {});
    const Value all = norm(b, b.sub(pairs.x, pairs.y), p);
    const Square square(b, n);
    const Value kept = b.lt(square.row, square.column);
    // Each pair of the upper triangle goes to its place; the others go nowhere.
    const Value where = b.select(kept, place(b, square.row, square.column, n), b.scalar_int(-1, DType::kS64));
    return b.scatter(b.zeros(*call.results[0]), b.reshape(where, {n * n, 1}), b.flatten(all),
                     {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector_dim = 1},
                     [&](const Values& v) { return Values{v[1]}; });
  });
  ops.add(
      "_pdist_backward", contraction, [](Builder& b, const Call& call, Value grad, Value x, double p, Value distance) {
        const int64_t n = x.dim(0);
        if (x.numel() == 0 || n < 2) return b.zeros(*call.results[0]);
        const Square square(b, n);
        const Value low = b.min(square.row, square.column), high = b.max(square.row, square.column);
        const Value same = b.eq(square.row, square.column);
        const Value where = b.select(same, b.scalar_int(0, DType::kS64), place(b, low, high, n));
        const auto whole = [&](Value list) { return b.select(same, b.scalar(0, list.dtype()), take(b, list, where)); };
        const Pairs pairs(b, x, x, {});
        const Value difference = b.sub(pairs.x, pairs.y);
        const Value g = norm_backward(b, spread(b, whole(grad), difference.dims()), difference,
                                      spread(b, whole(distance), difference.dims()), p);
        return b.reduce(Reduce::kAdd, g, {1});
      });
}

}  // namespace tpu::ops
