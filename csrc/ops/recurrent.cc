// Cells of LSTM and GRU, forward and backward, after the products with the weights. What a cell keeps for its backward
// (its workspace) is seen by nobody else.
#include "ops/families.h"

namespace tpu::ops {
namespace {

// Column blocks of equal width.
Values blocks(Builder& b, Value x, int64_t n) {
  const int64_t width = x.dim(1) / n;
  Values parts;
  for (int64_t i = 0; i < n; ++i) parts.push_back(b.slice_dim(x, 1, i * width, (i + 1) * width));
  return parts;
}

// x + bias, in the dtype computed in.
Value biased(Builder& b, Value x, const optional<Value>& bias) {
  const DType dtype = opmath_of(x.dtype());
  x = b.convert(x, dtype);
  return bias ? b.add(x, b.broadcast_to(b.convert(*bias, dtype), x.dims())) : x;
}

Value minus_from_one(Builder& b, Value x) { return b.sub(b.scalar(1, x.dtype()), x); }
// Derivatives, of what the functions gave.
Value sigmoid_slope(Builder& b, Value y) { return b.mul(y, minus_from_one(b, y)); }
Value tanh_slope(Builder& b, Value y) { return minus_from_one(b, b.mul(y, y)); }

Value column_sums(Builder& b, Value x) { return b.reduce(hlo::Reduce::kAdd, x, {0}); }

// PyTorch's meta function asks the biases for their device also where there are none.
std::vector<Type> lstm_cell_results(const Call& call) {
  const Type &gates = *call.operands[0], &cell = *call.operands[2];
  return {cell, cell, gates};
}

void add_lstm(Table& ops) {
  ops.add("_thnn_fused_lstm_cell", contraction,
          [](Builder& b, Value from_input, Value from_hidden, Value cell, optional<Value> input_bias,
             optional<Value> hidden_bias) {
            const Values gates =
                blocks(b, b.add(biased(b, from_input, input_bias), biased(b, from_hidden, hidden_bias)), 4);
            const Value in = b.logistic(gates[0]), forget = b.logistic(gates[1]), fresh = b.tanh(gates[2]);
            const Value out = b.logistic(gates[3]);
            const Value next = b.add(b.mul(forget, b.convert(cell, forget.dtype())), b.mul(in, fresh));
            return Values{b.mul(out, b.tanh(next)), next, b.concat({in, forget, fresh, out}, 1)};
          })
      .results(lstm_cell_results);
  ops.add("_thnn_fused_lstm_cell_backward_impl", plain,
          [](Builder& b, optional<Value> grad_hidden, optional<Value> grad_cell, Value before, Value after,
             Value workspace, bool has_bias) {
            const DType dtype = opmath_of(workspace.dtype());
            const Values gates = blocks(b, b.convert(workspace, dtype), 4);
            const Value in = gates[0], forget = gates[1], fresh = gates[2], out = gates[3];
            const Value shown = b.tanh(b.convert(after, dtype));
            const Value gh = grad_hidden ? b.convert(*grad_hidden, dtype) : b.zeros_like(in);
            Value gc = b.mul(b.mul(gh, out), tanh_slope(b, shown));
            if (grad_cell) gc = b.add(gc, b.convert(*grad_cell, dtype));
            const Value gates_grad =
                b.concat({b.mul(b.mul(gc, fresh), sigmoid_slope(b, in)),
                          b.mul(b.mul(gc, b.convert(before, dtype)), sigmoid_slope(b, forget)),
                          b.mul(b.mul(gc, in), tanh_slope(b, fresh)), b.mul(b.mul(gh, shown), sigmoid_slope(b, out))},
                         1);
            Values results{gates_grad, b.mul(gc, forget)};
            if (has_bias) results.push_back(column_sums(b, gates_grad));
            return results;
          });
}

void add_gru(Table& ops) {
  ops.add("_thnn_fused_gru_cell", contraction,
          [](Builder& b, Value from_input, Value from_hidden, Value hidden, optional<Value> input_bias,
             optional<Value> hidden_bias) {
            const Values x = blocks(b, biased(b, from_input, input_bias), 3);
            const Values h = blocks(b, biased(b, from_hidden, hidden_bias), 3);
            const Value before = b.convert(hidden, x[0].dtype());
            const Value reset = b.logistic(b.add(x[0], h[0])), keep = b.logistic(b.add(x[1], h[1]));
            const Value fresh = b.tanh(b.add(x[2], b.mul(reset, h[2])));
            const Value next = b.add(fresh, b.mul(keep, b.sub(before, fresh)));
            return Values{next, b.concat({reset, keep, fresh, before, h[2]}, 1)};
          });
  ops.add("_thnn_fused_gru_cell_backward", plain, [](Builder& b, Value grad, Value workspace, bool has_bias) {
    const DType dtype = opmath_of(workspace.dtype());
    const Values kept = blocks(b, b.convert(workspace, dtype), 5);
    const Value reset = kept[0], keep = kept[1], fresh = kept[2], before = kept[3], from_hidden = kept[4];
    const Value g = b.convert(grad, dtype);
    const Value g_fresh = b.mul(b.mul(g, minus_from_one(b, keep)), tanh_slope(b, fresh));
    const Value g_reset = b.mul(b.mul(g_fresh, from_hidden), sigmoid_slope(b, reset));
    const Value g_keep = b.mul(b.mul(g, b.sub(before, fresh)), sigmoid_slope(b, keep));
    const Value of_input = b.concat({g_reset, g_keep, g_fresh}, 1);
    const Value of_hidden = b.concat({g_reset, g_keep, b.mul(g_fresh, reset)}, 1);
    Values results{of_input, of_hidden, b.mul(g, keep)};
    if (has_bias) results.push_back(column_sums(b, of_input)), results.push_back(column_sums(b, of_hidden));
    return results;
  });
}

}  // namespace

void add_recurrent(Table& ops) {
  add_lstm(ops);
  add_gru(ops);
}

}  // namespace tpu::ops
