// Writes StableHLO as text. One method per StableHLO (or CHLO) operation, named and meant as in the specification, plus
// the few conveniences every lowering needs. Result types are inferred here; a wrong form is a bug of the lowering and
// is reported by throwing BuildError (caught where programs are built, never across a C callback).
#pragma once

#include <complex>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hlo/type.h"

namespace tpu::hlo {

// "op(operand types): why". The builder that threw it is spent.
struct BuildError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline const Type kNoType;

// An SSA value: a handle into its builder, valid as long as the builder. A default one is no value: its type may be
// read, using it is a BuildError.
struct Value {
  int id = -1;
  const Type* type = &kNoType;

  explicit operator bool() const { return id >= 0; }
  DType dtype() const { return type->dtype; }
  const Dims& dims() const { return type->dims; }
  int64_t rank() const { return type->rank(); }
  int64_t numel() const { return type->numel(); }
  int64_t dim(int64_t i) const { return type->dims[static_cast<size_t>(i < 0 ? i + rank() : i)]; }
};
using Values = std::vector<Value>;

enum class Compare { kEq, kNe, kGe, kGt, kLe, kLt };
enum class Reduce { kAdd, kMul, kMax, kMin, kAnd, kOr };
enum class Precision { kDefault, kHigh, kHighest };
enum class Fft { kFft, kIfft, kRfft, kIrfft };

struct GatherDims {
  Dims offset = {}, collapsed = {}, operand_batching = {}, indices_batching = {}, start_index_map = {};
  int64_t index_vector_dim = 0;
};
struct ScatterDims {
  Dims update_window = {}, inserted_window = {}, operand_batching = {}, indices_batching = {}, scatter_to_operand = {};
  int64_t index_vector_dim = 0;
};
// Convolution: feature and batch dims by position; spatial dims in order.
struct ConvDims {
  int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch, output_feature;
  Dims input_spatial, kernel_spatial, output_spatial;
};
// One entry per dimension of the operand (reduce_window) or per spatial dimension (convolution). An empty list stands
// for strides and dilations of 1, padding of 0, and in a convolution the kernel's sizes.
struct Window {
  Dims size = {}, stride = {}, lhs_dilation = {}, rhs_dilation = {}, low = {}, high = {};
};

// Target of the custom call behind Builder::host_call().
inline constexpr const char* kHostCall = "torch_tpu_host";

class Builder {
 public:
  using Body = std::function<Values(const Values&)>;  // a region: block arguments -> what it returns
  struct Region {
    std::vector<Type> arguments;
    Body body;
  };

  Builder();
  Builder(const Builder&) = delete;

  // --- the function ---------------------------------------------------------------------------------------------
  // Parameters in order; `attributes` is MLIR text such as "jax.buffer_donor = true", or empty.
  Value parameter(const Type& type, std::string_view attributes = {});
  // The whole module: func.func public @main. The builder is spent afterwards.
  std::string finish(std::string_view module_name, const Values& results);
  // Whether all that was emitted is one transpose of `x`, without dimensions of size 1, and reshapes that cancel out.
  bool is_transpose(Value x, Value result) const;
  // What the operations written from now on stand for: the name of an operator, and the line of a program that called
  // it ("a.py:12"), which may be unknown (""). The compiler carries both through to its instructions. No name: nothing
  // is said.
  void set_location(std::string_view name, std::string_view place);
  // Whether the program is for XLA's CPU compiler, where a lowering has a form that only that one likes.
  void set_for_cpu(bool yes) { for_cpu_ = yes; }
  bool for_cpu() const { return for_cpu_; }
  // Lines so far, for asking how large a program is.
  size_t ops() const { return ops_; }

  // --- constants (written once each, at the head of the function) -------------------------------------------------
  Value scalar(double v, DType dtype);  // rank 0; integers are exact up to 2^53; bool: v != 0
  Value scalar_int(int64_t v, DType dtype);
  Value scalar_complex(std::complex<double> v, DType dtype);
  Value full(double v, DType dtype, const Dims& dims);  // scalar, broadcast
  Value zeros(const Type& type) { return full(0, type.dtype, type.dims); }
  Value zeros_like(Value x) { return zeros(*x.type); }
  Value full_like(Value x, double v) { return full(v, x.dtype(), x.dims()); }
  Value array(std::span<const int64_t> v, DType dtype);  // rank 1
  Value array(std::span<const double> v, DType dtype);
  Value lowest(DType dtype);   // -inf of floats, the least integer, false
  Value highest(DType dtype);  // +inf, the greatest integer, true

  // --- elementwise: operands of equal dtype; a rank-0 operand is broadcast to the other ---------------------------
  Value unary(std::string_view op, Value x);  // "stablehlo.exponential", "chlo.erf"
  Value binary(std::string_view op, Value a, Value b);
  Value neg(Value x), abs(Value x), sign(Value x), exp(Value x), expm1(Value x), log(Value x), log1p(Value x);
  Value sqrt(Value x), rsqrt(Value x), cbrt(Value x), tanh(Value x), logistic(Value x), sin(Value x), cos(Value x);
  Value tan(Value x), floor(Value x), ceil(Value x), round_even(Value x), round_away(Value x), is_finite(Value x);
  Value not_(Value x), popcnt(Value x), clz(Value x), real(Value x), imag(Value x);
  // Of bools, max and add are `or`, min and mul are `and`, as in PyTorch.
  Value add(Value a, Value b), sub(Value a, Value b), mul(Value a, Value b), div(Value a, Value b);
  Value rem(Value a, Value b);
  Value pow(Value a, Value b), max(Value a, Value b), min(Value a, Value b), atan2(Value a, Value b);
  Value and_(Value a, Value b), or_(Value a, Value b), xor_(Value a, Value b);
  Value shl(Value a, Value b), shr_logical(Value a, Value b), shr_arithmetic(Value a, Value b);
  Value complex(Value re, Value im);
  Value compare(Compare how, Value a, Value b);  // floats: IEEE; result bool
  Value eq(Value a, Value b) { return compare(Compare::kEq, a, b); }
  Value ne(Value a, Value b) { return compare(Compare::kNe, a, b); }
  Value lt(Value a, Value b) { return compare(Compare::kLt, a, b); }
  Value le(Value a, Value b) { return compare(Compare::kLe, a, b); }
  Value gt(Value a, Value b) { return compare(Compare::kGt, a, b); }
  Value ge(Value a, Value b) { return compare(Compare::kGe, a, b); }
  Value is_nan(Value x) { return ne(x, x); }
  Value select(Value predicate, Value a, Value b);  // rank-0 operands are broadcast, predicate too
  // x; in a program for the CPU, where a function of it would not be made into vectors, the end of the loop that makes
  // it. For what reads x more than once.
  Value settle(Value x);
  Value clamp(Value lo, Value x, Value hi);

  // PyTorch's conversion: to bool is `!= 0`; complex to real drops the imaginary part; float to integer truncates
  // toward zero, then wraps into types that are narrow or unsigned; float8_e4m3fn saturates.
  Value convert(Value x, DType dtype);
  // Same bits; sizes that differ add or take the innermost dimension, as in the specification. No bool, no complex.
  Value bitcast(Value x, DType dtype);

  // --- shape ------------------------------------------------------------------------------------------------------
  Value reshape(Value x, const Dims& dims);
  Value flatten(Value x) { return reshape(x, {x.numel()}); }
  Value transpose(Value x, const Dims& permutation);
  Value broadcast_in_dim(Value x, const Dims& dims, const Dims& mapping);
  Value broadcast_to(Value x, const Dims& dims);  // NumPy's rule: aligned at the right
  Value expand_dims(Value x, const Dims& at);     // size-1 dims at these positions of the result, ascending
  Value squeeze(Value x, const Dims& at);         // takes size-1 dims away
  Value slice(Value x, const Dims& start, const Dims& limit, const Dims& stride = {});
  Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
  Value dynamic_slice(Value x, const Values& starts, const Dims& sizes);
  Value dynamic_update_slice(Value x, Value update, const Values& starts);
  // The same, for a part of a value that stays: kept apart from its neighbours, since XLA's CPU compiler fuses it into
  // each of its readers, and then copies the whole value for each.
  Value overwrite(Value x, Value update, const Values& starts);
  Value pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior = {});
  // Parts that were joined along the same dimension are taken one by one, so that a tensor that grew part by part is
  // joined once; joins that nobody uses then are not in the program.
  Value concat(const Values& parts, int64_t dim);
  Value reverse(Value x, const Dims& dims);
  Value iota(DType dtype, const Dims& dims, int64_t dim);

  // --- reductions, windows, sorting, indexing ---------------------------------------------------------------------
  Value reduce(Reduce how, Value x, const Dims& dims);  // neutral start; dims are dropped
  // Any number of operands; `body` gets (accumulators..., elements...) and returns the accumulators.
  Values reduce(const Values& x, const Values& init, const Dims& dims, const Body& body);
  Value reduce_window(Reduce how, Value x, const Window& window);
  Values reduce_window(const Values& x, const Values& init, const Window& window, const Body& body);
  // `select` gets two elements; scatters with addition.
  Value select_and_scatter(Value x, Value source, Value init, const Window& window, Compare select);
  Value cumulative(Reduce how, Value x, int64_t dim);  // inclusive scan; logarithmic depth, linear memory
  // Sorts all operands by `less`, which gets (a0, b0, a1, b1, ...).
  Values sort(const Values& x, int64_t dim, bool stable, const Body& less);
  Value gather(Value x, Value indices, const GatherDims& dims, const Dims& slice_sizes, bool sorted = false);
  // `body` gets (old, update). `unique`: no index comes twice.
  Value scatter(Value x, Value indices, Value updates, const ScatterDims& dims, const Body& body, bool unique = false,
                bool sorted = false);

  // --- contractions -----------------------------------------------------------------------------------------------
  Value dot_general(Value a, Value b, Dims batch_a, Dims batch_b, Dims contract_a, Dims contract_b, DType result);
  Value matmul(Value a, Value b, DType result);  // [..., m, k] x [..., k, n] with equal leading dims
  Value convolution(Value x, Value kernel, const Window& window, const ConvDims& dims, int64_t feature_groups,
                    int64_t batch_groups, DType result);
  // Precision of every contraction written from now on.
  void set_precision(Precision precision) { precision_ = precision; }
  Value cholesky(Value x, bool lower);
  Value triangular_solve(Value a, Value b, bool left, bool lower, bool unit_diagonal, char transpose /* N T C */);
  Value fft(Value x, Fft kind, const Dims& lengths);

  // --- control, calls ---------------------------------------------------------------------------------------------
  Values while_(const Values& init, const Body& condition, const Body& body);
  Values if_(Value predicate, const std::function<Values()>& then, const std::function<Values()>& otherwise);
  Values custom_call(std::string_view target, const Values& operands, const std::vector<Type>& results,
                     std::string_view extra_attributes = {});
  // A function of the process that the program runs in, for compilers whose programs can call one (pjrt/host_call.h):
  // after the ones written before it, whether or not its results are used. `attributes` as in an MLIR dictionary.
  // `in_place`: the first result may take the memory of the first operand.
  Values host_call(std::string_view function, std::string_view attributes, const Values& operands,
                   std::vector<Type> results, bool in_place);
  Values optimization_barrier(const Values& x);
  // Any operation in generic form: `"name"(operands) ({regions}) {attributes} : types`, for what has no method.
  Values raw(std::string_view op, const Values& operands, std::string_view attributes, const std::vector<Type>& results,
             const std::vector<Region>& regions = {});

 private:
  // A block being written. Constants stand at the head of the block that uses them: they dominate the rest of it, and
  // no region captures one (a captured value becomes state of a loop; reducers may capture nothing).
  struct Block {
    std::string constants, body;
    std::map<std::string, Value> known;  // constants by their text
  };
  struct Written {  // a region as text, and the types that it returns
    std::string text;
    std::vector<Type> returns;
  };

  Value fresh(const Type& type);
  std::string indent() const { return std::string(2 + 2 * blocks_.size(), ' '); }
  // `%n = text`
  Value line(const Type& result, std::string_view text);
  Value constant(const Type& type, std::string_view elements);
  // `op %a, %b<details> : type`, where all have the same type.
  Value uniform(std::string_view op, const Values& operands, std::string_view details = {});
  // `op %a, %b<details> : (A, B) -> result`
  Value call(std::string_view op, const Values& operands, std::string_view details, const Type& result);
  Values generic(std::string_view op, const Values& operands, std::string_view attributes,
                 const std::vector<Written>& regions, const std::vector<Type>& results);
  Value commutative(std::string_view op, Value a, Value b);
  Value convert_directly(Value x, DType to);
  static bool is_small_part(Value part, Value x);
  int64_t elements_of(Value v) const;  // before it was spread
  // The loop that makes a value, as far as the CPU's compiler fuses. Sizes are powers of 2, so sets are sums of them.
  struct Loop {
    size_t reads = 0;       // of how many bytes the elements are that it reads
    size_t overwrites = 0;  // those of tensors that nobody else may need, so that it can write where they are
    bool calls = false;     // functions
    bool spreads = false;   // a tensor along new dimensions
    bool in_second_way(Value result) const;
  };
  Loop loop_of(Value v) const;
  Value in_loop(std::string_view op, Values operands, const std::function<Value(const Values&)>& emit);
  Written write(const Region& region);
  Written write_reducer(std::string_view op, const Values& operands, const Values& init, const Body& body);
  void see_through_transpose(Value& x, Dims& batch, Dims& contract) const;
  Value scan_by_window(Reduce how, Value x, int64_t dim);
  std::string_view precision() const;
  // The function's body.
  std::string without_unused_joins(const Values& results) const;

  std::string parameters_, location_;
  std::deque<Type> types_;
  std::vector<Block> blocks_;  // innermost last
  int next_id_ = 0, num_parameters_ = 0;
  size_t ops_ = 0, reshapes_ = 0;
  struct Transposed {
    Value source;
    Dims permutation;
  };
  std::map<int, Transposed> transposes_;  // by the id of the result
  std::map<int, int64_t> spread_;         // from how many elements, by the id of the result
  std::map<int, Loop> loops_;             // of what is made element by element
  struct Joined {
    Values parts;
    int64_t dim;
    size_t begin, end;  // where it stands in the function's body
  };
  std::map<int, Joined> joins_;  // of the function's own block, by the id of the result
  bool spliced_ = false;
  Precision precision_ = Precision::kHighest;
  bool for_cpu_ = false;
  Value order_;  // an operand and result of each host call, so that they run one after the other
};

}  // namespace tpu::hlo
