// Scaled dot-product attention as one operator, forward and backward: no mask, no score and no probability is a tensor
// of its own. A row that may attend to nothing gives zeros.
#include <cmath>

#include "ops/families.h"
#include "ops/growing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

// Queries, keys and values as [batch, heads of the keys, length, width]. Where several heads of queries share one of
// keys, they stand one after the other in `length`.
struct Attention {
  Builder& b;
  DType dtype;  // of the operands of products; sums and softmax are in float32 or wider
  DType compute;
  int64_t batch, heads, groups, queries, keys;
  Value q, k, v, scale;
  optional<Value> bias;
  bool causal;

  Attention(Builder& builder, Value query, Value key, Value value, optional<Value> attn_bias, bool is_causal,
            const optional<Scalar>& factor)
      : b(builder), dtype(query.dtype()), compute(opmath_of(dtype)), bias(std::move(attn_bias)), causal(is_causal) {
    heads = key.dim(-3), groups = query.dim(-3) / heads, queries = query.dim(-2), keys = key.dim(-2);
    batch = query.rank() == 4 ? query.dim(0) : 1;
    q = grouped(query);
    k = b.reshape(key, {batch, heads, keys, key.dim(-1)});
    v = b.reshape(value, {batch, heads, keys, value.dim(-1)});
    scale = factor ? b.convert(*factor, compute) : b.scalar(1 / std::sqrt(static_cast<double>(query.dim(-1))), compute);
  }

  Value grouped(Value x) const { return b.reshape(x, {batch, heads, groups * queries, x.dim(-1)}); }
  Dims rows() const { return {batch, heads, groups * queries}; }
  Dims scores_dims() const { return {batch, heads, groups * queries, keys}; }
  // A value a row, beside every key.
  Value spread(Value row) const { return b.broadcast_in_dim(row, scores_dims(), {0, 1, 2}); }

  // a [.., m, x] times b [.., n, x], over x; then a [.., m, x] times b [.., x, n]; then over m.
  Value times_transposed(Value x, Value y) const { return b.dot_general(x, y, {0, 1}, {0, 1}, {3}, {3}, compute); }
  Value times(Value x, Value y) const { return b.dot_general(x, y, {0, 1}, {0, 1}, {3}, {2}, compute); }
  Value transposed_times(Value x, Value y) const {
    if (!b.for_cpu()) return b.dot_general(x, y, {0, 1}, {0, 1}, {2}, {2}, compute);
    // The compiler has its fast kernel where the left operand is summed over its last dimension; else it packs the
    // operands number by number. The transposes are of narrow tensors.
    const Dims swap = {0, 1, 3, 2};
    const Value left = b.optimization_barrier({b.transpose(y, swap)})[0];
    return b.transpose(b.optimization_barrier({b.dot_general(left, x, {0, 1}, {0, 1}, {3}, {2}, compute)})[0], swap);
  }

  Value scores() const {
    Value s = b.mul(times_transposed(q, k), scale);
    const Dims by_head = {batch, heads * groups, queries, keys};
    if (bias) s = b.add(s, b.reshape(b.broadcast_to(b.convert(*bias, compute), by_head), scores_dims()));
    if (!causal) return s;
    const Dims square = {queries, keys};
    const Value seen = b.ge(b.iota(DType::kS32, square, 0), b.iota(DType::kS32, square, 1));
    return b.select(b.reshape(b.broadcast_in_dim(seen, by_head, {2, 3}), scores_dims()), s, b.lowest(compute));
  }
  struct Softmax {
    Builder& b;
    Value most, weights, total;  // weights: not yet divided by their total
    Value log_sum() const { return b.add(most, b.log(total)); }
  };
  Softmax softmax(Value s) const {
    s = b.settle(s);
    const Value most = finite(b.reduce(Reduce::kMax, s, {3})), weights = b.exp(b.sub(s, spread(most)));
    return {b, most, weights, b.reduce(Reduce::kAdd, weights, {3})};
  }
  // Rows of -inf only are moved by 0.
  Value finite(Value row) const { return b.select(b.eq(row, b.lowest(compute)), b.scalar(0, compute), row); }
};

}  // namespace

void add_attention(Table& ops) {
  ops.add("_scaled_dot_product_fused_attention_overrideable", multiplication,
          [](Builder& b, const Call& call, Value query, Value key, Value value, optional<Value> bias, double,
             bool causal, bool, optional<Scalar> scale) {
            const Attention a(b, query, key, value, bias, causal, scale);
            const Attention::Softmax s = a.softmax(a.scores());
            const Value weighted = a.times(b.convert(s.weights, a.dtype), a.v);
            const Value safe = b.select(b.eq(s.total, b.scalar(0, a.compute)), b.scalar(1, a.compute), s.total);
            const Value out = b.div(weighted, b.broadcast_in_dim(safe, weighted.dims(), {0, 1, 2}));
            return Values{b.reshape(out, call.results[0]->dims), b.reshape(s.log_sum(), call.results[1]->dims),
                          b.zeros(*call.results[2]), b.zeros(*call.results[3])};
          })
      .grows_by(grows_attention);
  ops.add("_scaled_dot_product_fused_attention_overrideable_backward", plain,
          [](Builder& b, Value grad, Value query, Value key, Value value, optional<Value> bias, Dims, Value,
             Value log_sum, optional<Value>, optional<Value>, int64_t, int64_t, double, bool causal, optional<Value>,
             optional<Value>, optional<Scalar> scale) {
            const Attention a(b, query, key, value, bias, causal, scale);
            const Value g = a.grouped(grad);
            const Value s = a.scores();
            // PyTorch keeps log_sum in float32.
            const Value sums = a.compute == DType::kF64 ? a.softmax(s).log_sum() : b.reshape(log_sum, a.rows());
            const Value p = b.exp(b.sub(s, a.spread(a.finite(sums))));
            const Value dv = a.transposed_times(b.convert(p, a.dtype), g);
            // The difference cancels: its parts come of the same numbers, not of the result as it was rounded, and what
            // log_sum misses falls out.
            const Value dp = a.times_transposed(g, a.v), total = b.reduce(Reduce::kAdd, p, {3});
            const Value safe = b.select(b.eq(total, b.scalar(0, a.compute)), b.scalar(1, a.compute), total);
            const Value along = b.div(b.reduce(Reduce::kAdd, b.mul(p, dp), {3}), safe);
            const Value ds = b.mul(p, b.sub(dp, a.spread(along)));
            const Value scaled = b.convert(b.mul(ds, a.scale), a.dtype);
            const Value dq = a.times(scaled, a.k), dk = a.transposed_times(scaled, a.q);
            Values results{b.reshape(dq, query.dims()), b.reshape(dk, key.dims()), b.reshape(dv, value.dims())};
            if (bias) {
              const Value by_head = b.reshape(ds, {a.batch, a.heads * a.groups, a.queries, a.keys});
              Dims summed;
              const int64_t added = 4 - bias->rank();
              for (int64_t d = 0; d < 4; ++d) {
                if (d < added || (bias->dim(d - added) == 1 && by_head.dim(d) != 1)) summed.push_back(d);
              }
              results.push_back(b.reshape(b.reduce(Reduce::kAdd, by_head, summed), bias->dims()));
            }
            return results;
          });
}

}  // namespace tpu::ops
