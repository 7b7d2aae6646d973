// Rows of a table: embedding, and bags of rows that are added, averaged or maximized.
#include "ops/bounds.h"
#include "ops/families.h"
#include "ops/indexing.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

enum Mode : int64_t { kSum, kMean, kMax };

Value integer(Builder& b, int64_t v, Value like) { return b.scalar_int(v, like.dtype()); }

// Rows that count for nothing are sent outside, where writes are dropped.
Value without_padding(Builder& b, Value index, int64_t padding) {
  if (padding < 0) return index;
  return b.select(b.eq(index, integer(b, padding, index)), integer(b, -1, index), index);
}

Value column(Builder& b, Value v, const Dims& dims) { return b.broadcast_in_dim(v, dims, {0}); }

// How often each of `size` rows is used, seen from every use.
Value frequency(Builder& b, Value index, int64_t size, DType dtype) {
  const Value counts = put_slices(b, b.full(0, dtype, {size}), index, b.full(1, dtype, {index.numel()}), 0,
                                  combine(b, hlo::Reduce::kAdd));
  return take_slices(b, counts, index, 0);
}

// Adds `rows` [uses, width] into a table of `size` rows.
Value into_table(Builder& b, Value rows, Value index, int64_t size, int64_t padding, bool by_frequency) {
  const Value at = without_padding(b, index, padding);
  if (by_frequency) rows = b.div(rows, column(b, frequency(b, index, size, rows.dtype()), rows.dims()));
  return put_slices(b, b.full(0, rows.dtype(), {size, rows.dim(1)}), at, rows, 0, combine(b, hlo::Reduce::kAdd));
}

// Which bag each index is in: how many bags start at or before it, less one.
Value bag_of(Builder& b, Value offsets, int64_t bags, int64_t uses) {
  const Value starts = positions(b, b.slice_dim(offsets, 0, 0, bags), uses);
  const Value at = put_slices(b, b.full(0, DType::kS32, {uses}), starts, b.full(1, DType::kS32, {bags}), 0,
                              combine(b, hlo::Reduce::kAdd));
  return b.sub(b.cumulative(hlo::Reduce::kAdd, at, 0), b.scalar_int(1, DType::kS32));
}

struct Bags {
  Value rows;   // [uses, width]
  Value bag;    // of each use; -1 where it is padding
  Value index;  // the row it uses
  int64_t count;
};

Value sum_in_bags(Builder& b, const Bags& bags) {
  return put_slices(b, b.full(0, bags.rows.dtype(), {bags.count, bags.rows.dim(1)}), bags.bag, bags.rows, 0,
                    combine(b, hlo::Reduce::kAdd));
}

// The greatest of each column of each bag, and the row that has it, the first of equals; 0 and -1 of empty bags.
std::pair<Value, Value> max_in_bags(Builder& b, const Bags& bags) {
  const DType dtype = bags.rows.dtype();
  const Dims dims{bags.count, bags.rows.dim(1)};
  const Value none = b.full(static_cast<double>(bags.rows.dim(0)), DType::kS32, dims);
  const Value most =
      put_slices(b, b.broadcast_to(b.lowest(dtype), dims), bags.bag, bags.rows, 0, combine(b, hlo::Reduce::kMax));
  const Value seen = take_slices(b, most, bags.bag, 0);
  const Value is_most = b.or_(b.eq(bags.rows, seen), b.is_nan(bags.rows));
  const Value use = b.select(
      is_most, b.iota(DType::kS32, bags.rows.dims(), 0),
      b.slice(b.full(static_cast<double>(bags.rows.dim(0)), DType::kS32, bags.rows.dims()), {0, 0}, bags.rows.dims()));
  const Value first = put_slices(b, none, bags.bag, use, 0, combine(b, hlo::Reduce::kMin));
  const Value empty = b.eq(first, none);
  const Value row = b.reshape(take_slices(b, bags.index, b.flatten(first), 0), dims);
  return {b.select(empty, b.scalar(0, dtype), most), b.select(empty, integer(b, -1, row), row)};
}

Values embedding_bag(Builder& b, const Call& call, Value weight, Value indices, Value offsets, int64_t mode,
                     const optional<Value>& sample_weights, int64_t padding) {
  const int64_t uses = indices.numel(), bags = call.results[0]->dims[0];
  const Value index = positions(b, indices, weight.dim(0));
  const Value bag = bag_of(b, offsets, bags, uses);
  const Value counted = padding < 0 ? bag : b.select(b.eq(index, integer(b, padding, index)), integer(b, -1, bag), bag);
  Value rows = b.convert(take_slices(b, weight, index, 0), call.compute);
  if (sample_weights) rows = b.mul(rows, column(b, b.convert(*sample_weights, call.compute), rows.dims()));
  const Bags all{rows, counted, index, bags};
  const Value sizes = put_slices(b, b.full(0, DType::kS32, {bags}), counted, b.full(1, DType::kS32, {uses}), 0,
                                 combine(b, hlo::Reduce::kAdd));
  Value out, most = b.zeros(*call.results[3]);
  if (mode == kMax) {
    std::tie(out, most) = max_in_bags(b, all);
  } else {
    out = sum_in_bags(b, all);
    if (mode == kMean) {
      const Value divisor = b.convert(b.max(sizes, b.scalar_int(1, DType::kS32)), call.compute);
      out = b.div(out, column(b, divisor, out.dims()));
    }
  }
  const Value padded = b.pad(sizes, b.scalar_int(0, DType::kS32), {0}, {call.results[2]->dims[0] - bags});
  return {out, bag, padded, most};
}

Value bag_backward(Builder& b, const Call& call, Value grad, Value indices, Value bag, Value sizes, Value most,
                   int64_t num_weights, bool by_frequency, int64_t mode, const optional<Value>& sample_weights,
                   int64_t padding) {
  grad = b.convert(grad, call.compute);
  if (mode == kMax) {
    const Value table = b.full(0, grad.dtype(), {num_weights, grad.dim(1)});
    return put_along(b, table, positions(b, most, num_weights), grad, 0, combine(b, hlo::Reduce::kAdd));
  }
  if (mode == kMean) {
    const Value counts = b.slice_dim(b.convert(sizes, call.compute), 0, 0, grad.dim(0));
    grad = b.div(grad, column(b, b.max(counts, b.scalar(1, call.compute)), grad.dims()));
  }
  Value rows = take_slices(b, grad, positions(b, bag, grad.dim(0)), 0);
  if (sample_weights) rows = b.mul(rows, column(b, b.convert(*sample_weights, call.compute), rows.dims()));
  return into_table(b, rows, positions(b, indices, num_weights), num_weights, padding, by_frequency);
}

// Rows among those used whose norm is above max_norm are brought to it.
Value renorm(Builder& b, Value weight, Value indices, Value max_norm, double p) {
  const DType wide = opmath_of(weight.dtype());
  const Value index = positions(b, b.flatten(indices), weight.dim(0));
  const Value rows = b.convert(take_slices(b, weight, index, 0), wide);
  const Value size = b.abs(rows);
  Value norm;
  if (p == 1) {
    norm = b.reduce(hlo::Reduce::kAdd, size, {1});
  } else if (p == 2) {
    norm = b.sqrt(b.reduce(hlo::Reduce::kAdd, b.mul(rows, rows), {1}));
  } else if (std::isinf(p)) {
    norm = b.reduce(hlo::Reduce::kMax, size, {1});
  } else {
    norm = b.pow(b.reduce(hlo::Reduce::kAdd, b.pow(size, b.scalar(p, wide)), {1}), b.scalar(1 / p, wide));
  }
  const Value most = b.convert(max_norm, wide);
  const Value scale = b.div(most, b.add(norm, b.scalar(1e-7, wide)));
  const Value factor = b.select(b.gt(norm, most), scale, b.full_like(scale, 1));
  const Value scaled = b.mul(rows, column(b, factor, rows.dims()));
  return put_slices(b, weight, index, b.convert(scaled, weight.dtype()), 0, replace());
}

void add_bags(Table& ops) {
  const auto forward = [](Builder& b, const Call& call, Value weight, Value indices, Value offsets, bool, int64_t mode,
                          bool, optional<Value> sample_weights, bool, int64_t padding) {
    return embedding_bag(b, call, weight, indices, offsets, mode, sample_weights, padding);
  };
  const auto check = [](Builder& b, Value weight, Value indices, Value, bool, int64_t, bool, optional<Value>, bool,
                        int64_t) { return bounds(b, indices, weight.dim(0)); };
  ops.add("_embedding_bag", plain, forward).checks(check);
  ops.add("_embedding_bag_forward_only", plain, forward).checks(check);
  ops.add(
      "_embedding_bag_backward", plain,
      [](Builder& b, const Call& call, Value grad, Value indices, Value, Value bag, Value sizes, Value most,
         int64_t num_weights, bool by_frequency, int64_t mode, bool, optional<Value> sample_weights, int64_t padding) {
        return bag_backward(b, call, grad, indices, bag, sizes, most, num_weights, by_frequency, mode, sample_weights,
                            padding);
      });
  ops.add("_embedding_bag_dense_backward", plain,
          [](Builder& b, const Call& call, Value grad, Value indices, Value bag, Value sizes, Value most,
             int64_t num_weights, bool by_frequency, int64_t mode, optional<Value> sample_weights, int64_t padding) {
            return bag_backward(b, call, grad, indices, bag, sizes, most, num_weights, by_frequency, mode,
                                sample_weights, padding);
          });
  ops.add("_embedding_bag_per_sample_weights_backward", plain,
          [](Builder& b, const Call& call, Value grad, Value weight, Value indices, Value, Value bag, int64_t,
             int64_t padding) {
            const Value index = positions(b, indices, weight.dim(0));
            const Value rows = b.convert(take_slices(b, weight, index, 0), call.compute);
            const Value grads = b.convert(take_slices(b, grad, positions(b, bag, grad.dim(0)), 0), call.compute);
            const Value dots = b.reduce(hlo::Reduce::kAdd, b.mul(rows, grads), {1});
            if (padding < 0) return dots;
            return b.select(b.eq(index, integer(b, padding, index)), b.scalar(0, dots.dtype()), dots);
          });
}

}  // namespace

void add_embedding(Table& ops) {
  ops.add("embedding", plain,
          [](Builder& b, const Call& call, Value weight, Value indices, int64_t, bool, bool) {
            const Value index = positions(b, b.flatten(indices), weight.dim(0));
            return b.reshape(take_slices(b, weight, index, 0), call.results[0]->dims);
          })
      .checks([](Builder& b, Value weight, Value indices, int64_t, bool, bool) {
        return bounds(b, indices, weight.dim(0));
      });
  ops.add("embedding_dense_backward", plain,
          [](Builder& b, const Call& call, Value grad, Value indices, int64_t num_weights, int64_t padding,
             bool by_frequency) {
            const Value index = positions(b, b.flatten(indices), num_weights);
            const Value rows = b.reshape(b.convert(grad, call.compute), {index.numel(), grad.dim(-1)});
            return into_table(b, rows, index, num_weights, padding, by_frequency);
          })
      .checks([](Builder& b, Value, Value indices, int64_t num_weights, int64_t, bool) {
        return bounds(b, indices, num_weights);
      });
  ops.add("embedding_renorm", plain,
          [](Builder& b, Value weight, Value indices, Scalar max_norm, double p) {
            return renorm(b, weight, indices, max_norm, p);
          })
      .refuses([](const Call& call) {
        const DType dtype = call.operands[0]->dtype;
        if (is_float(dtype) || is_complex(dtype)) return Status();
        return invalid("norm(): input dtype should be either floating point or complex. Got " + kernel_name(dtype) +
                       " instead.");
      })
      .checks(
          [](Builder& b, Value weight, Value indices, Scalar, double) { return bounds(b, indices, weight.dim(0)); });
  add_bags(ops);
}

}  // namespace tpu::ops
