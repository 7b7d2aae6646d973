#include "ops/ctc.h"

#include "ops/reducing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

constexpr double kInf = std::numeric_limits<double>::infinity();

// The targets of each row with blanks before, between and behind: what a path may visit.
struct Trellis {
  Value labels;           // s32 [n, l]
  Value skips;            // [n, l]: may be reached from the label before the last one
  Value own;              // [t, n, l]: log-probability of each label
  Value inputs, targets;  // s32 [n]: lengths
};

// Rows of targets that stand one behind the other, as a matrix; what lies behind a row's end is unspecified.
Value as_rows(Builder& b, Value targets, Value lengths, int64_t size) {
  if (targets.rank() == 2 || size == 0) return b.slice_dim(targets, targets.rank() - 1, 0, size);
  const int64_t n = lengths.dim(0);
  const Value start = b.sub(b.cumulative(Reduce::kAdd, lengths, 0), lengths);
  const Value at = b.add(b.broadcast_in_dim(start, {n, size}, {0}), b.iota(DType::kS32, {n, size}, 1));
  return take_each(b, targets, at);
}

Trellis trellis(Builder& b, Value log_probs, Value targets, Value inputs, Value lengths, int64_t size, int64_t blank) {
  inputs = b.convert(inputs, DType::kS32);
  lengths = b.convert(lengths, DType::kS32);
  const int64_t t = log_probs.dim(0), n = log_probs.dim(1), l = 2 * size + 1;
  const Value filler = b.scalar_int(blank, DType::kS32);
  Value labels = b.broadcast_to(filler, {n, l});
  Value skips = b.full(0, DType::kBool, {n, l});
  if (size > 0) {
    labels = b.pad(as_rows(b, b.convert(targets, DType::kS32), lengths, size), filler, {0, 1}, {0, 1}, {0, 1});
    const Value changes = b.ne(b.slice_dim(labels, 1, 2, l), b.slice_dim(labels, 1, 0, l - 2));
    skips = b.pad(changes, b.scalar(0, DType::kBool), {0, 2}, {0, 0});
  }
  const Value own = take_along(b, log_probs, b.broadcast_in_dim(labels, {t, n, l}, {1, 2}), 2);
  return {labels, skips, own, inputs, lengths};
}

// x[s - by], or x[s + by] for a negative one; nothing comes from outside.
Value moved(Builder& b, Value x, int64_t by) { return b.pad(x, b.scalar(-kInf, x.dtype()), {0, by}, {0, -by}); }

Value log_sum(Builder& b, const Values& terms) {
  Value top = terms[0];
  for (const Value& v : terms) top = b.max(top, v);
  const Value base = b.select(b.eq(top, b.full_like(top, -kInf)), b.zeros_like(top), top);
  Value sum = b.zeros_like(top);
  for (const Value& v : terms) sum = b.add(sum, b.exp(b.sub(v, base)));
  return b.add(b.log(sum), base);
}

Value slice_at(Builder& b, Value x, Value t) {
  const Value zero = b.scalar(0, DType::kS32);
  return b.reshape(b.dynamic_slice(x, {t, zero, zero}, {1, x.dim(1), x.dim(2)}), {x.dim(1), x.dim(2)});
}
Value put_at(Builder& b, Value x, Value row, Value t) {
  const Value zero = b.scalar(0, DType::kS32);
  return b.dynamic_update_slice(x, b.reshape(row, {1, x.dim(1), x.dim(2)}), {t, zero, zero});
}

// Where position `at` [n] of a row is, in a matrix like `x` [n, l].
Value where_is(Builder& b, Value x, Value at) {
  return b.eq(b.iota(DType::kS32, x.dims(), 1), b.broadcast_in_dim(at, x.dims(), {0}));
}
Value value_at(Builder& b, Value x, Value at) {
  return b.reduce(Reduce::kAdd, b.select(where_is(b, x, at), x, b.zeros_like(x)), {1});
}

Value last_label(Builder& b, const Trellis& tr) { return b.add(tr.targets, tr.targets); }
Value one_less(Builder& b, Value x) { return b.sub(x, b.full_like(x, 1)); }

// [t, n, l]: log-probability of all beginnings of paths that are at a label at a time.
Value alphas(Builder& b, const Trellis& tr) {
  const int64_t steps = tr.own.dim(0);
  const Value first = slice_at(b, tr.own, b.scalar(0, DType::kS32));
  const Value position = b.iota(DType::kS32, first.dims(), 1);
  const Value start = b.select(b.le(position, b.full_like(position, 1)), first, b.full_like(first, -kInf));
  const Value all = put_at(b, b.zeros_like(tr.own), start, b.scalar(0, DType::kS32));
  return b.while_(
      {b.scalar(1, DType::kS32), start, all, tr.own, tr.skips},
      [&](const Values& s) { return Values{b.lt(s[0], b.scalar_int(steps, DType::kS32))}; },
      [&](const Values& s) {
        const Value two = b.select(s[4], moved(b, s[1], 2), b.full_like(s[1], -kInf));
        const Value next = b.add(log_sum(b, {s[1], moved(b, s[1], 1), two}), slice_at(b, s[3], s[0]));
        return Values{b.add(s[0], b.scalar(1, DType::kS32)), next, put_at(b, s[2], next, s[0]), s[3], s[4]};
      })[2];
}

// The same for the ends of paths.
Value betas(Builder& b, const Trellis& tr) {
  const Value nothing = b.full(-kInf, tr.own.dtype(), {tr.own.dim(1), tr.own.dim(2)});
  const Value end = last_label(b, tr);
  const Value ends = b.or_(where_is(b, nothing, end), where_is(b, nothing, one_less(b, end)));
  const Value last = b.broadcast_in_dim(one_less(b, tr.inputs), nothing.dims(), {0});
  return b.while_(
      {b.scalar_int(tr.own.dim(0) - 1, DType::kS32), nothing, b.zeros_like(tr.own), tr.own, tr.skips, ends, last},
      [&](const Values& s) { return Values{b.ge(s[0], b.scalar(0, DType::kS32))}; },
      [&](const Values& s) {
        const Value own = slice_at(b, s[3], s[0]), none = b.full_like(own, -kInf);
        const Value two = moved(b, b.select(s[4], s[1], none), -2);
        Value next = b.add(log_sum(b, {s[1], moved(b, s[1], -1), two}), own);
        next = b.select(b.eq(s[6], b.broadcast_to(s[0], s[6].dims())), b.select(s[5], own, none), next);
        return Values{b.sub(s[0], b.scalar(1, DType::kS32)), next, put_at(b, s[2], next, s[0]), s[3], s[4], s[5], s[6]};
      })[2];
}

}  // namespace

Values emit_ctc_loss(Builder& b, const Call& call, std::span<const Value> operands) {
  const Value log_probs = b.convert(operands[0], opmath_of(operands[0].dtype()));
  const int64_t size = (call.results[1]->dims[2] - 1) / 2, blank = std::get<int64_t>(call.attributes[0]);
  const Trellis tr = trellis(b, log_probs, operands[1], operands[2], operands[3], size, blank);
  const Value alpha = alphas(b, tr);
  const Dims cube = alpha.dims();
  const Value time = b.iota(DType::kS32, cube, 0);
  const Value at_end = b.eq(time, b.broadcast_in_dim(one_less(b, tr.inputs), cube, {1}));
  const Value end = b.reduce(Reduce::kAdd, b.select(at_end, alpha, b.zeros_like(alpha)), {0});
  const Value zero = b.zeros_like(tr.targets), none = b.full(-kInf, alpha.dtype(), tr.targets.dims());
  const Value last = last_label(b, tr), empty = b.eq(tr.targets, zero);
  const Value on_label = b.select(empty, none, value_at(b, end, one_less(b, last)));
  Value loss = b.neg(log_sum(b, {value_at(b, end, last), on_label}));
  loss = b.select(b.eq(tr.inputs, zero), b.select(empty, b.zeros_like(loss), b.full_like(loss, kInf)), loss);
  return {loss, b.transpose(alpha, {1, 0, 2})};
}

Values emit_ctc_loss_backward(Builder& b, const Call& call, std::span<const Value> operands) {
  const DType dtype = opmath_of(operands[1].dtype());
  const Value grad = b.convert(operands[0], dtype), log_probs = b.convert(operands[1], dtype);
  const Value loss = b.convert(operands[5], dtype);
  const Value alpha = b.transpose(b.convert(operands[6], dtype), {1, 0, 2});
  const int64_t blank = std::get<int64_t>(call.attributes[0]);
  const bool zero_infinity = std::get<bool>(call.attributes[1]);
  const Trellis tr = trellis(b, log_probs, operands[2], operands[3], operands[4], (alpha.dim(2) - 1) / 2, blank);
  const Value beta = betas(b, tr);
  // The probability that a path goes through a label at a time, given that it spells the targets.
  const Dims cube = alpha.dims(), all = log_probs.dims();
  const Value both = b.add(b.sub(b.add(alpha, beta), tr.own), b.broadcast_in_dim(loss, cube, {1}));
  const Value none = b.full_like(alpha, -kInf);
  const Value never = b.or_(b.eq(alpha, none), b.eq(beta, none));
  const Value passes = b.select(never, b.zeros_like(both), b.exp(both));
  const Dims named{cube[1], cube[2], all[2]};
  const Value names = b.eq(b.broadcast_in_dim(tr.labels, named, {0, 1}), b.iota(DType::kS32, named, 2));
  const Value by_class = b.dot_general(passes, b.convert(names, dtype), {1}, {0}, {2}, {1}, dtype);  // [n, t, c]
  Value out = b.sub(b.exp(log_probs), b.transpose(by_class, {1, 0, 2}));
  const Value lost = b.broadcast_in_dim(b.eq(loss, b.full_like(loss, kInf)), all, {1});
  out = b.mul(out, b.broadcast_in_dim(grad, all, {1}));
  out = b.select(lost, b.full_like(out, zero_infinity ? 0 : std::numeric_limits<double>::quiet_NaN()), out);
  const Value inside = b.lt(b.iota(DType::kS32, all, 0), b.broadcast_in_dim(tr.inputs, all, {1}));
  return {b.select(inside, out, b.zeros_like(out))};
}

}  // namespace tpu::ops
