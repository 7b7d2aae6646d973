// Losses whose target names classes, and their derivatives. Scores have their classes in dimension 1 (0 if they have
// only one), targets one class for each place of the others.
#include "ops/bounds.h"
#include "ops/losses.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

int64_t class_dim(Value scores) { return scores.rank() == 1 ? 0 : 1; }

struct Targets {
  Value index;     // s64, dims of the scores, of size 1 in the dimension of classes
  Value is_class;  // dims of the scores
  int64_t dim;
};
Targets read_targets(Builder& b, Value scores, Value target) {
  const int64_t dim = class_dim(scores);
  Dims dims = scores.dims();
  dims[static_cast<size_t>(dim)] = 1;
  const Value index = b.reshape(b.convert(target, DType::kS64), dims);
  const Value classes = b.iota(DType::kS32, scores.dims(), dim);
  const Value here = b.eq(classes, b.broadcast_to(b.convert(index, DType::kS32), scores.dims()));
  return {index, here, dim};
}

// The weight of each place; 0 where the target is to be ignored.
Value place_weights(Builder& b, const Targets& t, Value scores, const optional<Value>& weight, int64_t ignore_index) {
  const Value w = weight ? take_each(b, *weight, t.index) : b.full(1, scores.dtype(), t.index.dims());
  return b.select(b.ne(t.index, b.scalar_int(ignore_index, DType::kS64)), w, b.zeros_like(w));
}

Values nll(Builder& b, const Call& call, Value scores, Raw target, optional<Value> weight, int64_t how,
           int64_t ignore_index) {
  const Targets t = read_targets(b, scores, target);
  const Value w = place_weights(b, t, scores, weight, ignore_index);
  const Value picked = b.mul(b.neg(take_along(b, scores, t.index, t.dim)), w);
  const Value ignored = b.eq(t.index, b.scalar_int(ignore_index, DType::kS64));
  const Value loss = b.select(ignored, b.zeros_like(picked), picked);
  if (how == kNone) return {b.reshape(loss, call.results[0]->dims), b.scalar(0, scores.dtype())};
  const Value total = b.reduce(Reduce::kAdd, w, all_dims(w)), sum = b.reduce(Reduce::kAdd, loss, all_dims(loss));
  return {how == kMean ? b.div(sum, total) : sum, total};
}

Value nll_backward(Builder& b, Value grad, Value scores, Raw target, optional<Value> weight, int64_t how,
                   int64_t ignore_index, Value total_weight) {
  const Targets t = read_targets(b, scores, target);
  const Value w = place_weights(b, t, scores, weight, ignore_index);
  const Value each = how == kNone ? b.reshape(grad, t.index.dims()) : b.reshape(grad, {});
  Value slope = b.neg(b.mul(w, each));
  if (how == kMean) slope = b.div(slope, b.reshape(total_weight, {}));
  const Value wanted = b.ne(t.index, b.scalar_int(ignore_index, DType::kS64));
  const Value here = b.and_(t.is_class, b.broadcast_to(wanted, scores.dims()));
  return b.select(here, b.broadcast_to(slope, scores.dims()), b.zeros_like(scores));
}

// Debug mode: every target names a class, or is ignored.
Value check_nll(Builder& b, Value scores, Value target, int64_t ignore_index) {
  const Value t = b.convert(target, DType::kS64);
  const Value ignored = b.eq(t, b.scalar_int(ignore_index, DType::kS64));
  return bounds(b, b.select(ignored, b.zeros_like(t), t), scores.dim(class_dim(scores)));
}

Status refuse_nll(const Call& call) {
  const Type &scores = *call.operands[0], &target = *call.operands[1];
  if (scores.rank() != 1 && scores.rank() != 2) return invalid("input tensor should be 1D or 2D");
  if (target.rank() > 1) return invalid("0D or 1D target tensor expected, multi-target not supported");
  if (target.dtype != DType::kS64 && target.dtype != DType::kU8) {
    return invalid("expected target dtype to be Long or Byte");
  }
  const bool one = scores.rank() == 1 && target.rank() == 0;
  if (!one && (scores.rank() == 1 ? target.numel() != 1 : scores.dims[0] != target.dims[0])) {
    return invalid("size mismatch (got input: " + shape(scores.dims) + ", target: " + shape(target.dims) + ")");
  }
  const int64_t classes = scores.dims.back();
  if (call.operands.size() < 3 || call.operands[2]->dims == Dims{classes}) return {};
  return invalid("weight tensor should be defined either for all " + std::to_string(classes) +
                 " classes or no classes but got weight tensor of shape: " + shape(call.operands[2]->dims));
}

// PyTorch's meta function takes no targets that are bytes.
std::vector<Type> nll_results(const Call& call) {
  const Type& scores = *call.operands[0];
  const bool each = std::get<int64_t>(call.attributes[3]) == kNone && scores.rank() == 2;
  return {{scores.dtype, each ? Dims{scores.dims[0]} : Dims{}}, {scores.dtype, {}}};
}

// One for each target; PyTorch's meta function gives the loss of a single row a dimension.
std::vector<Type> multi_margin_results(const Call& call) {
  const bool each = std::get<int64_t>(call.attributes[5]) == kNone;
  return {{call.operands[0]->dtype, each ? call.operands[1]->dims : Dims{}}};
}

Status has_classes(const Type& scores) {
  if (scores.rank() <= 2 && (scores.rank() == 0 || scores.dims.back() != 0)) return {};
  return invalid("Expected non-empty vector or matrix with optional 0-dim batch size, but got: " + shape(scores.dims));
}

Status refuse_multi_margin(const Call& call) {
  const Type &scores = *call.operands[0], &target = *call.operands[1];
  TPU_RETURN_IF_ERROR(has_classes(scores));
  const int64_t rows = scores.rank() == 2 ? scores.dims[0] : 1, classes = scores.rank() > 0 ? scores.dims.back() : 1;
  if (target.rank() > 1 || target.numel() != rows) {
    return invalid(
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch " +
        std::string("size). Expected target size [") + std::to_string(rows) + "], but got " + shape(target.dims) +
        ". Input has shape " + shape(scores.dims) + ".");
  }
  if (call.operands.size() == 3) {
    const Type& weight = *call.operands[2];
    if (weight.rank() > 1 || weight.numel() != classes) {
      return invalid("inconsistent weight size, expected " + std::to_string(classes) + " but got " +
                     shape(weight.dims));
    }
  }
  return is_float(target.dtype) ? invalid("expected scalar type Long but found Float") : Status();
}

void add_nll(Table& ops) {
  const auto forward = [](Builder& b, const Call& call, Value scores, Raw target, optional<Value> weight, int64_t how,
                          int64_t ignore_index) { return nll(b, call, scores, target, weight, how, ignore_index); };
  const auto check = [](Builder& b, Value scores, Raw target, optional<Value>, int64_t, int64_t ignore_index) {
    return check_nll(b, scores, target, ignore_index);
  };
  const auto backward = [](Builder& b, Value grad, Value scores, Raw target, optional<Value> weight, int64_t how,
                           int64_t ignore_index, Value total_weight) {
    return nll_backward(b, grad, scores, target, weight, how, ignore_index, total_weight);
  };
  ops.add("nll_loss_forward", reduction, forward).checks(check).refuses(refuse_nll).results(nll_results);
  ops.add("nll_loss2d_forward", reduction, forward).checks(check);
  ops.add("nll_loss_backward", reduction, backward).results(like<1>);
  ops.add("nll_loss2d_backward", reduction, backward).results(like<1>);
}

// --- margins --------------------------------------------------------------------------------------------------------

// margin - x[target] + x for the other classes where that is positive, else 0.
Value excess(Builder& b, Value scores, const Targets& t, Value margin) {
  const Value own = b.broadcast_to(take_along(b, scores, t.index, t.dim), scores.dims());
  const Value z = b.add(b.sub(margin, own), scores), zero = b.zeros_like(z);
  return b.select(b.or_(t.is_class, b.le(z, zero)), zero, z);
}

void add_multi_margin(Table& ops) {
  ops.add("multi_margin_loss", reduction,
          [](Builder& b, const Call& call, Value x, Raw target, Number p, Scalar margin, optional<Value> weight,
             int64_t how) {
            if (x.rank() == 0) x = b.reshape(x, {1});
            const Targets t = read_targets(b, x, target);
            const Value z = excess(b, x, t, margin);
            const Value sum = b.reduce(Reduce::kAdd, p.to_int() == 1 ? z : b.mul(z, z), {t.dim});
            Value loss = b.div(sum, b.scalar(static_cast<double>(x.dim(t.dim)), x.dtype()));
            if (weight) loss = b.mul(loss, b.reshape(take_each(b, *weight, t.index), loss.dims()));
            return b.reshape(reduce_loss(b, loss, how), call.results[0]->dims);
          })
      .refuses(refuse_multi_margin)
      .results(multi_margin_results);
  ops.add("multi_margin_loss_backward", reduction,
          [](Builder& b, const Call& call, Value grad, Value x, Raw target, Number p, Scalar margin,
             optional<Value> weight, int64_t how) {
            if (x.rank() == 0) x = b.reshape(x, {1});
            const Targets t = read_targets(b, x, target);
            const Value z = excess(b, x, t, margin);
            const Value one = b.full_like(z, 1), zero = b.zeros_like(z);
            Value slope = p.to_int() == 1 ? b.select(b.gt(z, zero), one, zero) : b.add(z, z);
            if (weight) slope = b.mul(slope, b.broadcast_to(take_each(b, *weight, t.index), x.dims()));
            slope = b.div(slope, b.scalar(static_cast<double>(x.dim(t.dim)), x.dtype()));
            slope = b.select(t.is_class, b.neg(spread(b, b.reduce(Reduce::kAdd, slope, {t.dim}), x, {t.dim})), slope);
            const Value each = of_each(b, grad, how, t.index.numel());
            const Value g =
                how == kNone ? b.broadcast_to(b.reshape(each, t.index.dims()), x.dims()) : b.reshape(each, {});
            return b.reshape(b.mul(slope, g), call.results[0]->dims);
          })
      .results(like<1>);
}

// The targets of a multi-label loss: a row of classes, ended by a negative number.
struct Labels {
  Value listed;     // [n, k, c]: entry k counts and names class c
  Value is_target;  // [n, c]
};
Labels read_labels(Builder& b, Value target) {
  const Value t = b.convert(target, DType::kS32);
  const int64_t n = t.dim(0), c = t.dim(1);
  const Value counts = b.cumulative(Reduce::kAnd, b.ge(t, b.zeros_like(t)), 1);
  const Value names = b.eq(b.broadcast_in_dim(t, {n, c, c}, {0, 1}), b.iota(DType::kS32, {n, c, c}, 2));
  const Value listed = b.and_(names, b.broadcast_in_dim(counts, {n, c, c}, {0, 1}));
  return {listed, b.reduce(Reduce::kOr, listed, {1})};
}

Dims as_matrix(Value x) { return x.rank() == 2 ? x.dims() : Dims{1, x.numel()}; }

// For entry k and class c, how far c comes too near: 1 - x[target[k]] + x[c] of classes that are no target.
Value too_near(Builder& b, Value x, const Labels& labels) {
  const Dims cube = labels.listed.dims();
  const Value others = b.broadcast_in_dim(x, cube, {0, 2});
  const Value own = b.reduce(Reduce::kAdd, b.select(labels.listed, others, b.zeros_like(others)), {2});
  const Value z = b.add(b.sub(b.scalar(1, x.dtype()), b.broadcast_in_dim(own, cube, {0, 1})), others);
  const Value counts = b.broadcast_in_dim(b.reduce(Reduce::kOr, labels.listed, {2}), cube, {0, 1});
  const Value wrong = b.not_(b.broadcast_in_dim(labels.is_target, cube, {0, 2}));
  return b.select(b.and_(b.and_(counts, wrong), b.gt(z, b.zeros_like(z))), z, b.zeros_like(z));
}

// A vector is one row, whose loss is a number; PyTorch's meta function gives that a dimension.
std::vector<Type> multilabel_margin_results(const Call& call) {
  const Type &scores = *call.operands[0], &target = *call.operands[1];
  const bool each = std::get<int64_t>(call.attributes[2]) == kNone && target.rank() == 2;
  return {{scores.dtype, each ? Dims{target.dims[0]} : Dims{}}, {scores.dtype, target.dims}};
}

Status refuse_multilabel_margin(const Call& call) {
  const Type &scores = *call.operands[0], &target = *call.operands[1];
  TPU_RETURN_IF_ERROR(has_classes(scores));
  const bool one = scores.rank() < 2 && target.rank() < 2 && scores.numel() == target.numel();
  if (one || (scores.rank() == 2 && scores.dims == target.dims)) {
    return target.dtype == DType::kS64 ? Status() : invalid("expected scalar type Long for the target");
  }
  return invalid("inconsistent target size: " + shape(target.dims) + " for input of size: " + shape(scores.dims));
}

void add_multilabel_margin(Table& ops) {
  ops.add("multilabel_margin_loss_forward", reduction,
          [](Builder& b, const Call& call, Value x, Raw target, int64_t how) -> Values {
            const Dims dims = as_matrix(x);
            const Value scores = b.reshape(x, dims);
            const Labels labels = read_labels(b, b.reshape(target, dims));
            const Value sum = b.reduce(Reduce::kAdd, too_near(b, scores, labels), {1, 2});
            const Value loss = b.div(sum, b.scalar(static_cast<double>(dims[1]), x.dtype()));
            return {b.reshape(reduce_loss(b, loss, how), call.results[0]->dims),
                    b.reshape(labels.is_target, call.results[1]->dims)};
          })
      .refuses(refuse_multilabel_margin)
      .results(multilabel_margin_results);
  ops.add("multilabel_margin_loss_backward", reduction,
          [](Builder& b, const Call& call, Value grad, Value x, Raw target, int64_t how, Value) {
            const Dims dims = as_matrix(x);
            const Value scores = b.reshape(x, dims);
            const Labels labels = read_labels(b, b.reshape(target, dims));
            const Value near = b.convert(b.gt(too_near(b, scores, labels), b.scalar(0, x.dtype())), x.dtype());
            const Dims& cube = near.dims();
            // Each pair pushes the class up and the entry's target down.
            const Value up = b.reduce(Reduce::kAdd, near, {1});
            const Value weight = b.broadcast_in_dim(b.reduce(Reduce::kAdd, near, {2}), cube, {0, 1});
            const Value down = b.reduce(Reduce::kAdd, b.select(labels.listed, weight, b.zeros_like(weight)), {1});
            const Value slope = b.div(b.sub(up, down), b.scalar(static_cast<double>(dims[1]), x.dtype()));
            const Value each = of_each(b, grad, how, dims[0]);
            const Value g =
                how == kNone ? b.broadcast_in_dim(b.reshape(each, {dims[0]}), dims, {0}) : b.reshape(each, {});
            return b.reshape(b.mul(slope, g), call.results[0]->dims);
          })
      .results(like<1>);
}

}  // namespace

void add_class_loss(Table& ops) {
  add_nll(ops);
  add_multi_margin(ops);
  add_multilabel_margin(ops);
}

}  // namespace tpu::ops
