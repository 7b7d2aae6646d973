// Optimizer steps over lists of parameters. The numbers (learning rates, betas) are float64, as in PyTorch's kernels:
// 1 - beta2 ** step would lose most of its digits in float32.
#include <array>

#include "ops/families.h"

namespace tpu::ops {
namespace {

using Lists = std::vector<Values>;

// What all fused optimizers share: the scaler's factor is taken out of the gradients, and nothing changes where it has
// found an infinity.
class Step {
 public:
  Step(Builder& b, optional<Value> grad_scale, optional<Value> found_inf) : b_(b) {
    if (grad_scale) scale_ = b.reshape(*grad_scale, {});
    if (found_inf) skip_ = b.ne(b.reshape(*found_inf, {}), b.scalar(0, found_inf->dtype()));
  }
  bool scales() const { return static_cast<bool>(scale_); }
  Value unscaled(Value grad) const {
    const Value g = wide(grad);
    return scale_ ? b_.div(g, b_.convert(scale_, g.dtype())) : g;
  }
  // The old value where the step is skipped; in the old value's dtype.
  Value chosen(Value old, Value now) const {
    now = b_.convert(now, old.dtype());
    return skip_ ? b_.select(skip_, old, now) : now;
  }
  Value wide(Value x) const { return b_.convert(x, opmath_of(x.dtype())); }

 private:
  Builder& b_;
  Value scale_, skip_;
};

Values flat(const Lists& lists) {
  Values all;
  for (const Values& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Value rank0(Builder& b, Value x) { return b.convert(b.reshape(x, {}), DType::kF64); }

struct AdamNumbers {
  Value lr, beta1, beta2;
  Factor weight_decay;
  Scalar eps;
  bool amsgrad, maximize, decoupled;
};

// Lists: parameters, gradients, averages, averages of squares, their maxima.
Values adam(Builder& b, Lists lists, const Values& steps, const AdamNumbers& n, const Step& step) {
  const auto f64 = [&](double v) { return b.scalar(v, DType::kF64); };
  for (size_t i = 0; i < steps.size(); ++i) {
    Value &p = lists[0][i], &g = lists[1][i], &m = lists[2][i], &v = lists[3][i];
    const DType dtype = opmath_of(p.dtype());
    const auto in = [&](Value x) { return b.convert(x, dtype); };
    const Value t = rank0(b, steps[i]);
    const Value correction1 = b.sub(f64(1), b.pow(n.beta1, t)), correction2 = b.sub(f64(1), b.pow(n.beta2, t));
    const Value kept = in(step.unscaled(g));
    Value param = in(p), grad = n.maximize ? b.neg(kept) : kept;
    if (!n.weight_decay.is(0)) {
      if (n.decoupled) {
        param = b.mul(param, in(b.sub(f64(1), b.mul(n.lr, n.weight_decay))));
      } else {
        grad = b.add(grad, b.mul(param, in(n.weight_decay)));
      }
    }
    const Value average = b.add(in(m), b.mul(b.sub(grad, in(m)), in(b.sub(f64(1), n.beta1))));
    const Value square = b.add(b.mul(in(v), in(n.beta2)), b.mul(b.mul(grad, grad), in(b.sub(f64(1), n.beta2))));
    Value seen = square;
    if (n.amsgrad) {
      Value& most = lists[4][i];
      seen = b.max(in(most), square);
      most = step.chosen(most, seen);
    }
    const Value norm = b.add(b.div(b.sqrt(seen), in(b.sqrt(correction2))), in(n.eps));
    param = b.sub(param, b.div(b.mul(average, in(b.div(n.lr, correction1))), norm));
    p = step.chosen(p, param);
    if (step.scales()) g = step.chosen(g, kept);
    m = step.chosen(m, average);
    v = step.chosen(v, square);
  }
  return flat(lists);
}

struct SgdNumbers {
  Value lr;
  Factor weight_decay;
  Scalar momentum, dampening;
  bool nesterov, maximize, is_first_step;
};

// Lists: parameters, gradients, momenta (maybe none).
Values sgd(Builder& b, Lists lists, const SgdNumbers& n, const Step& step) {
  for (size_t i = 0; i < lists[0].size(); ++i) {
    Value &p = lists[0][i], &g = lists[1][i];
    const DType dtype = opmath_of(p.dtype());
    const auto in = [&](Value x) { return b.convert(x, dtype); };
    const Value kept = in(step.unscaled(g));
    Value grad = n.maximize ? b.neg(kept) : kept;
    if (!n.weight_decay.is(0)) grad = b.add(grad, b.mul(in(p), in(n.weight_decay)));
    if (!lists[2].empty()) {
      Value& buffer = lists[2][i];
      Value now = grad;
      if (!n.is_first_step) {
        const Value rest = b.sub(b.scalar(1, DType::kF64), n.dampening);
        now = b.add(b.mul(in(buffer), in(n.momentum)), b.mul(grad, in(rest)));
      }
      grad = n.nesterov ? b.add(grad, b.mul(now, in(n.momentum))) : now;
      buffer = step.chosen(buffer, now);
    }
    p = step.chosen(p, b.sub(in(p), b.mul(grad, in(n.lr))));
    if (step.scales()) g = step.chosen(g, kept);
  }
  return flat(lists);
}

struct AdagradNumbers {
  Value lr;
  Scalar lr_decay;
  Factor weight_decay;
  Scalar eps;
  bool maximize;
};

// Lists: parameters, gradients, sums of squares.
Lists adagrad(Builder& b, Lists lists, const Values& steps, const AdagradNumbers& n, const Step& step) {
  const Value one = b.scalar(1, DType::kF64);
  for (size_t i = 0; i < steps.size(); ++i) {
    Value &p = lists[0][i], &g = lists[1][i], &s = lists[2][i];
    const DType dtype = opmath_of(p.dtype());
    const auto in = [&](Value x) { return b.convert(x, dtype); };
    const Value rate = b.div(n.lr, b.add(one, b.mul(b.sub(rank0(b, steps[i]), one), n.lr_decay)));
    const Value kept = in(step.unscaled(g));
    Value grad = n.maximize ? b.neg(kept) : kept;
    if (!n.weight_decay.is(0)) grad = b.add(grad, b.mul(in(p), in(n.weight_decay)));
    const Value sum = b.add(in(s), b.mul(grad, grad));
    const Value norm = b.add(b.sqrt(sum), in(n.eps));
    p = step.chosen(p, b.sub(in(p), b.div(b.mul(grad, in(rate)), norm)));
    s = step.chosen(s, sum);
    if (step.scales()) g = step.chosen(g, kept);
  }
  return lists;
}

void add_adam(Table& ops, const char* name, const char* tensor_lr, auto decoupled) {
  ops.add(name, plain,
          [](Builder& b, Values p, Values g, Values m, Values v, Values most, Values steps, Scalar lr, Scalar beta1,
             Scalar beta2, Factor decay, Scalar eps, bool amsgrad, bool maximize, optional<Value> scale,
             optional<Value> inf) {
            return adam(b, {p, g, m, v, most}, steps,
                        {lr, beta1, beta2, decay, eps, amsgrad, maximize, decltype(decoupled)::value},
                        Step(b, scale, inf));
          })
      .numbers_in(always<DType::kF64>);
  ops.add(tensor_lr, plain,
          [](Builder& b, Values p, Values g, Values m, Values v, Values most, Values steps, Value lr, Scalar beta1,
             Scalar beta2, Factor decay, Scalar eps, bool amsgrad, bool maximize, optional<Value> scale,
             optional<Value> inf) {
            return adam(b, {p, g, m, v, most}, steps,
                        {rank0(b, lr), beta1, beta2, decay, eps, amsgrad, maximize, decltype(decoupled)::value},
                        Step(b, scale, inf));
          })
      .numbers_in(always<DType::kF64>);
}

void add_sgd(Table& ops) {
  ops.add("_fused_sgd", plain,
          [](Builder& b, Values p, Values g, Values buffers, Factor decay, Scalar momentum, Scalar lr, Scalar dampening,
             bool nesterov, bool maximize, bool first, optional<Value> scale, optional<Value> inf) {
            return sgd(b, {p, g, buffers}, {lr, decay, momentum, dampening, nesterov, maximize, first},
                       Step(b, scale, inf));
          })
      .numbers_in(always<DType::kF64>);
  ops.add("_fused_sgd.tensor_lr", plain,
          [](Builder& b, Values p, Values g, Values buffers, Factor decay, Scalar momentum, Value lr, Scalar dampening,
             bool nesterov, bool maximize, bool first, optional<Value> scale, optional<Value> inf) {
            return sgd(b, {p, g, buffers}, {rank0(b, lr), decay, momentum, dampening, nesterov, maximize, first},
                       Step(b, scale, inf));
          })
      .numbers_in(always<DType::kF64>);
}

void add_adagrad(Table& ops) {
  ops.add("_fused_adagrad", plain,
          [](Builder& b, Values p, Values g, Values sums, Values steps, Scalar lr, Scalar lr_decay, Factor decay,
             Scalar eps, bool maximize, optional<Value> scale, optional<Value> inf) {
            Lists lists = adagrad(b, {p, g, sums}, steps, {lr, lr_decay, decay, eps, maximize}, Step(b, scale, inf));
            lists.push_back(steps);
            return flat(lists);
          })
      .numbers_in(always<DType::kF64>);
  ops.add("_fused_adagrad.tensor_lr", plain,
          [](Builder& b, Values p, Values g, Values sums, Values steps, Value lr, Scalar lr_decay, Factor decay,
             Scalar eps, bool maximize, optional<Value> scale, optional<Value> inf) {
            return flat(
                adagrad(b, {p, g, sums}, steps, {rank0(b, lr), lr_decay, decay, eps, maximize}, Step(b, scale, inf)));
          })
      .numbers_in(always<DType::kF64>);
}

void add_scaler(Table& ops) {
  ops.add("_amp_foreach_non_finite_check_and_unscale", plain,
          [](Builder& b, Values grads, Value found_inf, Value inv_scale) {
            Value bad = b.ne(b.reshape(found_inf, {}), b.scalar(0, found_inf.dtype()));
            const Value factor = b.reshape(inv_scale, {});
            for (Value& g : grads) {
              const Value wide = b.convert(g, opmath_of(g.dtype()));
              Dims all;
              for (int64_t d = 0; d < g.rank(); ++d) all.push_back(d);
              bad = b.or_(bad, b.reduce(hlo::Reduce::kOr, b.not_(b.is_finite(wide)), all));
              g = b.convert(b.mul(wide, b.convert(factor, wide.dtype())), g.dtype());
            }
            grads.push_back(b.reshape(b.convert(bad, found_inf.dtype()), found_inf.dims()));
            return grads;
          });
  ops.add("_amp_update_scale", plain,
          [](Builder& b, Value scale, Value tracker, Value found_inf, Scalar growth, Scalar backoff, Scalar interval) {
            const Value s = b.convert(b.reshape(scale, {}), DType::kF64), t = b.reshape(tracker, {});
            const Value bad = b.ne(b.reshape(found_inf, {}), b.scalar(0, found_inf.dtype()));
            const Value next = b.add(t, b.scalar(1, t.dtype()));
            const Value due = b.eq(b.convert(next, DType::kF64), interval);
            const Value grown = b.convert(b.mul(s, growth), scale.dtype());
            const Value good = b.select(b.and_(due, b.is_finite(grown)), grown, b.reshape(scale, {}));
            const Value shrunk = b.convert(b.mul(s, backoff), scale.dtype());
            const Value zero = b.scalar(0, t.dtype());
            return Values{b.reshape(b.select(bad, shrunk, good), scale.dims()),
                          b.reshape(b.select(b.or_(bad, due), zero, next), tracker.dims())};
          })
      .numbers_in(always<DType::kF64>);
}

}  // namespace

void add_optimizer(Table& ops) {
  add_adam(ops, "_fused_adam", "_fused_adam.tensor_lr", std::false_type{});
  add_adam(ops, "_fused_adamw", "_fused_adamw.tensor_lr", std::true_type{});
  add_sgd(ops);
  add_adagrad(ops);
  add_scaler(ops);
}

}  // namespace tpu::ops
