// Layer, group, batch and RMS normalization, weight_norm and renorm. Statistics are sums in float32 (float64 of
// float64).
#include <algorithm>
#include <cmath>

#include "ops/families.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

// The dimensions over which an input is normalized, and what stands beside the formula: x in the dtype computed in.
struct Normalizer {
  Builder& b;
  DType compute;
  Dims dims;     // of the input
  Dims reduced;  // its dimensions that statistics run over
  Dims kept;     // the others

  Normalizer(Builder& builder, Value x, Dims over) : b(builder), compute(opmath_of(x.dtype())), dims(x.dims()) {
    reduced = std::move(over);
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(d);
    }
  }

  Value in(Value x) const { return b.convert(x, compute); }
  int64_t count() const {
    int64_t n = 1;
    for (const int64_t d : reduced) n *= dims[static_cast<size_t>(d)];
    return n;
  }
  Value sum(Value x) const { return b.reduce(hlo::Reduce::kAdd, x, reduced); }
  Value mean(Value x) const { return b.div(sum(x), b.scalar(static_cast<double>(count()), compute)); }
  // A statistic (of whatever dims) beside the input.
  Value spread(Value statistic) const {
    Dims to;
    for (const int64_t d : kept) to.push_back(dims[static_cast<size_t>(d)]);
    return b.broadcast_in_dim(b.reshape(in(statistic), to), dims, kept);
  }

  struct Moments {
    Value mean, centered, variance;
  };
  Moments moments(Value x) const {
    const Value m = mean(x), centered = b.sub(x, spread(m));
    return {m, centered, mean(b.mul(centered, centered))};
  }
  Value inverse_deviation(Value variance, Value eps) const { return b.rsqrt(b.add(variance, b.convert(eps, compute))); }

  // The gradient of the input; `g` is that of the normalized input `x_hat`.
  Value backward(Value g, Value x_hat, Value rstd) const {
    const Value along = b.mul(x_hat, spread(mean(b.mul(g, x_hat))));
    return b.mul(spread(rstd), b.sub(b.sub(g, spread(mean(g))), along));
  }
};
using hlo::Reduce;

Dims range(int64_t from, int64_t to) {
  Dims r;
  for (; from < to; ++from) r.push_back(from);
  return r;
}

Value opt_mul(Builder& b, Value x, const optional<Value>& factor) { return factor ? b.mul(x, *factor) : x; }

// --- layer norm, RMS norm: over the last dimensions -----------------------------------------------------------------

struct Layer : Normalizer {
  Dims leading, trailing;
  Layer(Builder& builder, Value x, const Dims& shape)
      : Normalizer(builder, x, range(x.rank() - static_cast<int64_t>(shape.size()), x.rank())),
        leading(kept),
        trailing(reduced) {}
  optional<Value> affine(const optional<Value>& w) const {
    if (!w) return {};
    return b.broadcast_in_dim(in(*w), dims, trailing);
  }
};

void add_layer_norm(Table& ops) {
  ops.add("native_layer_norm", plain,
          [](Builder& b, const Call& call, Value x, Dims shape, optional<Value> weight, optional<Value> bias,
             Scalar eps) {
            const Layer n(b, x, shape);
            const auto m = n.moments(n.in(x));
            Value mean = m.mean, rstd = n.inverse_deviation(m.variance, eps), centered = m.centered;
            if (b.for_cpu()) {
              // The CPU's compiler gives sums and all that follows them to one library call. Stopped at the statistics,
              // the rest fuses with what reads it, and the normalized tensor need not exist.
              const Values apart = b.optimization_barrier({mean, rstd});
              mean = apart[0], rstd = apart[1], centered = b.sub(n.in(x), n.spread(mean));
            }
            Value y = opt_mul(b, b.mul(centered, n.spread(rstd)), n.affine(weight));
            if (bias) y = b.add(y, *n.affine(bias));
            return Values{y, b.reshape(mean, call.results[1]->dims), b.reshape(rstd, call.results[2]->dims)};
          })
      .is_quick();
  ops.add("native_layer_norm_backward", plain,
          [](Builder& b, Value grad, Value x, Dims shape, Value mean, Value rstd, optional<Value> weight,
             optional<Value> bias, Dims mask) {
            const Layer n(b, x, shape);
            const Value g = n.in(grad), x_hat = b.mul(b.sub(n.in(x), n.spread(mean)), n.spread(rstd));
            Values out;
            if (mask[0]) out.push_back(n.backward(opt_mul(b, g, n.affine(weight)), x_hat, rstd));
            if (mask[1] && weight) out.push_back(b.reduce(Reduce::kAdd, b.mul(g, x_hat), n.leading));
            if (mask[2] && bias) out.push_back(b.reduce(Reduce::kAdd, g, n.leading));
            return out;
          });
  ops.add("_fused_rms_norm", plain,
          [](Builder& b, const Call& call, Value x, Dims shape, optional<Value> weight, optional<Scalar> eps) {
            const Layer n(b, x, shape);
            const Value v = n.in(x);
            const double least = x.dtype() == DType::kF64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
            const Value rstd = n.inverse_deviation(n.mean(b.mul(v, v)), eps ? Value(*eps) : b.scalar(least, n.compute));
            return Values{opt_mul(b, b.mul(v, n.spread(rstd)), n.affine(weight)),
                          b.reshape(rstd, call.results[1]->dims)};
          });
  ops.add("_fused_rms_norm_backward", plain,
          [](Builder& b, Value grad, Value x, Dims shape, Value rstd, optional<Value> weight, Dims mask) {
            const Layer n(b, x, shape);
            const Value x_hat = b.mul(n.in(x), n.spread(rstd)), g = n.in(grad);
            Values out;
            if (mask[0]) {
              const Value scaled = opt_mul(b, g, n.affine(weight));
              const Value along = b.mul(x_hat, n.spread(n.mean(b.mul(scaled, x_hat))));
              out.push_back(b.mul(n.spread(rstd), b.sub(scaled, along)));
            }
            if (mask[1] && weight) out.push_back(b.reduce(Reduce::kAdd, b.mul(g, x_hat), n.leading));
            return out;
          });
}

// --- group norm: over [C / groups, everything else], the input as [N, groups, C / groups, rest] ----------------------

struct Group : Normalizer {
  Group(Builder& builder, Value x, int64_t n, int64_t c, int64_t rest, int64_t groups)
      : Normalizer(builder, builder.reshape(x, {n, groups, c / groups, rest}), {2, 3}) {}
  Value grouped(Value x) const { return b.reshape(in(x), dims); }
  optional<Value> affine(const optional<Value>& w) const {
    if (!w) return {};
    return b.broadcast_in_dim(b.reshape(in(*w), {dims[1], dims[2]}), dims, {1, 2});
  }
  Value per_channel(Value x) const { return b.reshape(b.reduce(Reduce::kAdd, x, {0, 3}), {dims[1] * dims[2]}); }
};

// What the backward is given of the statistics is not rounded to the input's dtype.
std::vector<Type> group_norm_results(const Call& call) {
  const Type& x = *call.operands[0];
  const Type statistic{opmath_of(x.dtype),
                       {std::get<int64_t>(call.attributes[3]), std::get<int64_t>(call.attributes[6])}};
  return {x, statistic, statistic};
}

Status refuse_group_norm(const Call& call) {
  const Type& x = *call.operands[0];
  const int64_t channels = std::get<int64_t>(call.attributes[4]), groups = std::get<int64_t>(call.attributes[6]);
  if (groups <= 0) return invalid("Expected num groups to be greater than 0, got " + std::to_string(groups));
  if (channels % groups != 0) {
    return invalid("Expected number of channels in input to be divisible by num_groups, but got input of shape " +
                   shape(x.dims) + " and num_groups=" + std::to_string(groups));
  }
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (call.operands[i]->dims == Dims{channels}) continue;
    return invalid("Expected weight and bias to be vectors of size equal to the number of channels in input, but got " +
                   shape(call.operands[i]->dims) + " and input of shape " + shape(x.dims));
  }
  return {};
}

void add_group_norm(Table& ops) {
  ops.add("native_group_norm", plain,
          [](Builder& b, const Call& call, Value x, optional<Value> weight, optional<Value> bias, int64_t n, int64_t c,
             int64_t rest, int64_t groups, Scalar eps) {
            const Group g(b, x, n, c, rest, groups);
            const auto m = g.moments(g.grouped(x));
            const Value rstd = g.inverse_deviation(m.variance, eps);
            Value y = opt_mul(b, b.mul(m.centered, g.spread(rstd)), g.affine(weight));
            if (bias) y = b.add(y, *g.affine(bias));
            return Values{b.reshape(y, call.results[0]->dims), m.mean, rstd};
          })
      .channels_last_like({0})
      .refuses(refuse_group_norm)
      .results(group_norm_results);
  ops.add("native_group_norm_backward", plain,
          [](Builder& b, Value grad, Value x, Value mean, Value rstd, optional<Value> weight, int64_t n, int64_t c,
             int64_t rest, int64_t groups, Dims mask) {
            const Group g(b, x, n, c, rest, groups);
            const Value dy = g.grouped(grad);
            const Value x_hat = b.mul(b.sub(g.grouped(x), g.spread(mean)), g.spread(rstd));
            Values out;
            if (mask[0]) {
              out.push_back(b.reshape(g.backward(opt_mul(b, dy, g.affine(weight)), x_hat, rstd), x.dims()));
            }
            if (mask[1]) out.push_back(g.per_channel(b.mul(dy, x_hat)));
            if (mask[2]) out.push_back(g.per_channel(dy));
            return out;
          });
}

// --- batch norm: over all but dimension 1 ---------------------------------------------------------------------------

struct Batch : Normalizer {
  Batch(Builder& builder, Value x) : Normalizer(builder, x, all_but_one(x.rank())) {}
  static Dims all_but_one(int64_t rank) {
    Dims dims{0};
    for (int64_t d = 2; d < rank; ++d) dims.push_back(d);
    return dims;
  }
  // (1 - momentum) * running + momentum * found
  Value updated(Value running, Value found, Value momentum) const {
    const Value m = b.convert(momentum, compute);
    return b.add(b.mul(in(running), b.sub(b.scalar(1, compute), m)), b.mul(found, m));
  }
};

struct BatchNorm {
  Value result, mean, rstd;
  optional<Value> running_mean, running_variance;  // as they are afterwards
};

BatchNorm batch_norm(Builder& b, Value input, const optional<Value>& weight, const optional<Value>& bias,
                     const optional<Value>& running_mean, const optional<Value>& running_variance, bool training,
                     Value momentum, Value eps) {
  const Batch n(b, input);
  const Value x = n.in(input);
  BatchNorm out{.running_mean = running_mean, .running_variance = running_variance};
  Value centered;
  if (training) {
    const auto m = n.moments(x);
    out.mean = m.mean, out.rstd = n.inverse_deviation(m.variance, eps), centered = m.centered;
    const auto count = static_cast<double>(n.count());
    if (running_mean) out.running_mean = n.updated(*running_mean, m.mean, momentum);
    if (running_variance) {
      const Value unbiased = b.mul(m.variance, b.scalar(count / (count - 1), n.compute));
      out.running_variance = n.updated(*running_variance, unbiased, momentum);
    }
  } else {
    out.mean = n.in(*running_mean), out.rstd = n.inverse_deviation(n.in(*running_variance), eps);
    centered = b.sub(x, n.spread(out.mean));
  }
  // One factor a channel.
  const Value factor = weight ? b.mul(out.rstd, n.in(*weight)) : out.rstd;
  out.result = b.mul(centered, n.spread(factor));
  if (bias) out.result = b.add(out.result, n.spread(*bias));
  return out;
}

Values batch_norm_backward(Builder& b, Value grad, Value input, const optional<Value>& weight,
                           const optional<Value>& running_mean, const optional<Value>& running_variance,
                           const optional<Value>& saved_mean, const optional<Value>& saved_rstd, bool training,
                           Value eps, const Dims& mask) {
  const Batch n(b, input);
  const Value g = n.in(grad);
  const Value mean = n.in(training ? *saved_mean : *running_mean);
  const Value rstd = training ? n.in(*saved_rstd) : n.inverse_deviation(n.in(*running_variance), eps);
  const Value x_hat = b.mul(b.sub(n.in(input), n.spread(mean)), n.spread(rstd));
  const Value factor = weight ? b.mul(rstd, n.in(*weight)) : rstd;
  Values out;
  if (mask[0]) out.push_back(training ? n.backward(g, x_hat, factor) : b.mul(g, n.spread(factor)));
  if (mask[1]) out.push_back(n.sum(b.mul(g, x_hat)));
  if (mask[2]) out.push_back(n.sum(g));
  return out;
}

// The statistics of the batch are kept for the backward, unrounded. In evaluation there are none.
template <size_t training>
std::vector<Type> batch_norm_results(const Call& call) {
  const Type& x = *call.operands[0];
  const bool kept = training == 0 || std::get<bool>(call.attributes[training]);
  const Type statistic{opmath_of(x.dtype), {kept ? x.dims[1] : 0}};
  return {x, statistic, statistic};
}

std::vector<Type> unsaved(const Call& call) {
  const Type& x = *call.operands[0];
  const Type none{opmath_of(x.dtype), {0}};
  return {x, none, none};
}

// Those of a functional form, whose running statistics are its last operands.
std::vector<Type> with_running(const Call& call, std::vector<Type> results) {
  const size_t n = call.operands.size();
  results.insert(results.end(), {*call.operands[n - 2], *call.operands[n - 1]});
  return results;
}

Status has_statistics(const Call& call, size_t training) {
  const auto given = [&](size_t i) { return !std::holds_alternative<std::monostate>(call.attributes[i]); };
  if (std::get<bool>(call.attributes[training]) || (training > 3 && given(3) && given(4))) return {};
  return invalid("running_mean and running_var must be defined in evaluation mode");
}

// As many results as the call wants, the first three those of the normalization.
Values returned(Builder& b, const Call& call, const BatchNorm& n, bool training) {
  if (training) return {n.result, n.mean, n.rstd};
  return {n.result, b.zeros(*call.results[1]), b.zeros(*call.results[2])};
}

void add_batch_norm(Table& ops) {
  ops.add("native_batch_norm", plain,
          [](Builder& b, const Call& call, Value x, optional<Value> weight, optional<Value> bias, optional<Value> mean,
             optional<Value> variance, bool training, Scalar momentum, Scalar eps) {
            const BatchNorm n = batch_norm(b, x, weight, bias, mean, variance, training, momentum, eps);
            Values out = returned(b, call, n, training);
            if (training && mean) out.push_back(*n.running_mean);
            if (training && variance) out.push_back(*n.running_variance);
            return out;
          })
      .writes({3, 4}, 5)
      .channels_last_like({0})
      .refuses([](const Call& call) { return has_statistics(call, 5); })
      .results(batch_norm_results<5>);
  ops.add("_native_batch_norm_legit_functional", plain,
          [](Builder& b, const Call& call, Value x, optional<Value> weight, optional<Value> bias, Value mean,
             Value variance, bool training, Scalar momentum, Scalar eps) {
            const BatchNorm n = batch_norm(b, x, weight, bias, mean, variance, training, momentum, eps);
            Values out = returned(b, call, n, training);
            out.insert(out.end(), {*n.running_mean, *n.running_variance});
            return out;
          })
      .channels_last_like({0})
      .results([](const Call& call) { return with_running(call, batch_norm_results<5>(call)); });
  ops.add("_native_batch_norm_legit.no_stats", plain,
          [](Builder& b, const Call& call, Value x, optional<Value> weight, optional<Value> bias, bool training,
             Scalar momentum, Scalar eps) {
            return returned(b, call, batch_norm(b, x, weight, bias, {}, {}, true, momentum, eps), training);
          })
      .channels_last_like({0})
      .refuses([](const Call& call) { return has_statistics(call, 3); })
      .results(batch_norm_results<3>);
  ops.add("_native_batch_norm_legit_no_training", plain,
          [](Builder& b, const Call& call, Value x, optional<Value> weight, optional<Value> bias, Value mean,
             Value variance, Scalar momentum, Scalar eps) {
            return returned(b, call, batch_norm(b, x, weight, bias, mean, variance, false, momentum, eps), false);
          })
      .channels_last_like({0})
      .results(unsaved);
  ops.add("_batch_norm_no_update", plain,
          [](Builder& b, const Call& call, Value x, optional<Value> weight, optional<Value> bias, optional<Value> mean,
             optional<Value> variance, Scalar momentum, Scalar eps) {
            const bool training = !mean || !variance;
            const BatchNorm n = batch_norm(b, x, weight, bias, mean, variance, training, momentum, eps);
            return Values{n.result, b.zeros(*call.results[1]), b.zeros(*call.results[2]), b.zeros(*call.results[3])};
          })
      .channels_last_like({0})
      .results([](const Call& call) {
        std::vector<Type> results = unsaved(call);
        results.push_back({DType::kU8, {0}});
        return results;
      });
  ops.add("_batch_norm_with_update_functional", plain,
          [](Builder& b, const Call& call, Value x, optional<Value> weight, optional<Value> bias, Value mean,
             Value variance, Scalar momentum, Scalar eps) {
            const BatchNorm n = batch_norm(b, x, weight, bias, mean, variance, true, momentum, eps);
            return Values{n.result, n.mean, n.rstd, b.zeros(*call.results[3]), *n.running_mean, *n.running_variance};
          })
      .channels_last_like({0})
      .results([](const Call& call) {
        std::vector<Type> results = batch_norm_results<0>(call);
        results.push_back({DType::kU8, {0}});
        return with_running(call, results);
      });
  ops.add("native_batch_norm_backward", plain,
          [](Builder& b, Value grad, Value x, optional<Value> weight, optional<Value> mean, optional<Value> variance,
             optional<Value> saved_mean, optional<Value> saved_rstd, bool training, Scalar eps, Dims mask) {
            return batch_norm_backward(b, grad, x, weight, mean, variance, saved_mean, saved_rstd, training, eps, mask);
          });
  ops.add("batch_norm_backward", plain,
          [](Builder& b, Value grad, Value x, Value weight, optional<Value> mean, optional<Value> variance,
             optional<Value> saved_mean, optional<Value> saved_rstd, bool update, Scalar eps, Dims mask, Value) {
            return batch_norm_backward(b, grad, x, weight, mean, variance, saved_mean, saved_rstd, update, eps, mask);
          });
}

// --- norms of weights -----------------------------------------------------------------------------------------------

// Over all dimensions but one.
struct Others : Normalizer {
  Others(Builder& builder, Value x, int64_t dim) : Normalizer(builder, x, all_but(x.rank(), dim)) {}
  static Dims all_but(int64_t rank, int64_t dim) {
    Dims dims;
    for (int64_t d = 0; d < rank; ++d) {
      if (d != (dim < 0 ? dim + rank : dim)) dims.push_back(d);
    }
    return dims;
  }
};

// The p-norm over n.reduced.
Value vector_norm(const Normalizer& n, Value x, double p) {
  Builder& b = n.b;
  const Value a = b.abs(x);
  if (std::isinf(p)) return b.reduce(p > 0 ? Reduce::kMax : Reduce::kMin, a, n.reduced);
  if (p == 0) return n.sum(b.convert(b.convert(a, DType::kBool), a.dtype()));
  if (p == 1) return n.sum(a);
  if (p == 2) return b.sqrt(n.sum(b.mul(a, a)));
  return b.pow(n.sum(b.pow(a, b.scalar(p, a.dtype()))), b.scalar(1 / p, a.dtype()));
}

void add_weight_norms(Table& ops) {
  ops.add("_weight_norm_interface", plain, [](Builder& b, const Call& call, Value v, Value g, int64_t dim) {
    const Others n(b, v, dim);
    const Value norms = vector_norm(n, n.in(v), 2);
    const Value scale = n.spread(b.div(b.reshape(n.in(g), norms.dims()), norms));
    return Values{b.mul(n.in(v), scale), b.reshape(norms, call.results[1]->dims)};
  });
  ops.add("_weight_norm_interface_backward", plain,
          [](Builder& b, const Call& call, Value grad, Value v, Value g, Value saved, int64_t dim) {
            const Others n(b, v, dim);
            const Value x = n.in(v), dw = n.in(grad), along = n.sum(b.mul(dw, x));
            const Value norms = b.reshape(n.in(saved), along.dims());
            const Value scale = b.div(b.reshape(n.in(g), along.dims()), norms);
            const Value radial = b.mul(x, n.spread(b.div(along, b.mul(norms, norms))));
            return Values{b.mul(n.spread(scale), b.sub(dw, radial)),
                          b.reshape(b.div(along, norms), call.results[1]->dims)};
          });
  ops.add("renorm", plain, [](Builder& b, Value x, Number p, int64_t dim, Scalar max_norm) {
    const Others n(b, x, dim);
    const Value v = n.in(x), norms = vector_norm(n, v, p.to_double());
    const Value most = b.broadcast_to(b.convert(max_norm, norms.dtype()), norms.dims());
    const Value scaled = b.div(most, b.add(norms, b.scalar(1e-7, norms.dtype())));
    const Value factor = b.select(b.gt(norms, most), scaled, b.full_like(norms, 1));
    return b.mul(v, n.spread(factor));
  });
}

}  // namespace

void add_normalization(Table& ops) {
  add_layer_norm(ops);
  add_group_norm(ops);
  add_batch_norm(ops);
  add_weight_norms(ops);
}

}  // namespace tpu::ops
