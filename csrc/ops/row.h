// The op table. An op is one statement: its name in PyTorch's schema, a trait, and a lowering whose C++ signature says
// what each argument is:
//
//   ops.add("addcmul", pointwise, [](Builder& b, Value self, Value t1, Value t2, Scalar value) {
//     return b.add(self, b.mul(value, b.mul(t1, t2)));
//   });
//
//   C++ type of a parameter          the argument is
//
//   Value, optional<Value>, Values   a tensor, Tensor?, Tensor[]
//
//   Raw, optional<Raw>               a tensor that a promoting trait leaves in its own dtype (still broadcast)
//   Like                             a tensor that only says what the result is like: its elements are not read
//
//   OptionalValues                   Tensor?[] (indices)
//
//   Scalar, optional<Scalar>         a number that comes at run time: a new one compiles nothing
//   Factor, optional<Factor>         the same, but 0, 1 and -1 are part of the program: they leave out work
//
//   int64_t, bool, double, string,   part of the program
//   Dims, vector<double>, Number,
//   and optional<> of them
//
//   DType, optional<DType>           a ScalarType, part of the program
//
//   Random                           Generator?: seed and offset come at run time
//
//   Ignore                           looked at by nobody (device, layout, memory_format, pin_memory)
//
// A last parameter of type Drawn stands for no argument: the default generator, where the schema has none.
// A first parameter `const Call&` after the builder gives the types that PyTorch promises for the results.
// One row serves the functional, in-place and out= overloads. A lowering returns its results in the order of the schema
// (those the call leaves undefined are not returned); a result is converted to the promised dtype by the caller.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "hlo/call.h"

namespace tpu::ops {

using hlo::Builder;
using hlo::Call;
using hlo::Dims;
using hlo::Type;
using hlo::Value;
using hlo::Values;
template <typename T>
using optional = std::optional<T>;
using OptionalValues = std::vector<std::optional<Value>>;

struct Raw : Value {};
struct Like {};
struct Ignore {};
// Where something starts or stands: an int that comes at run time, whatever it is. Scalars that are 0 or 1 are part of
// the program, and the second row of a tensor would compile anew.
struct Position : Value {};
struct Random {
  Value seed, offset;  // u64, rank 0
};
struct Drawn : Random {};

// A number known when the program is written.
struct Number {
  hlo::Attr value;
  bool is_float() const { return std::holds_alternative<double>(value); }
  bool is_complex() const { return std::holds_alternative<std::complex<double>>(value); }
  double to_double() const;
  int64_t to_int() const;
  Value in(Builder& b, DType dtype) const;  // as a rank-0 constant
};

// A number that comes at run time, in the dtype the op computes in.
class Scalar {
 public:
  Scalar(Builder& b, Value v) : b_(&b), value_(v) {}
  Scalar(Builder& b, double identity, DType dtype) : b_(&b), identity_(identity), dtype_(dtype) {}
  operator Value() const { return identity_ ? b_->scalar(*identity_, dtype_) : value_; }  // NOLINT: meant to convert

 protected:
  bool is(double v) const { return identity_ && *identity_ == v; }

 private:
  Builder* b_;
  Value value_;
  std::optional<double> identity_;
  DType dtype_ = DType::kF32;
};

// A number of which 0, 1 and -1 are part of the program, for they leave out work: a factor, a decay.
class Factor : public Scalar {
 public:
  explicit Factor(Scalar s) : Scalar(std::move(s)) {}
  using Scalar::is;
};

enum class Arg : uint8_t {
  kTensor,
  kOptionalTensor,
  kTensors,
  kOptionalTensors,
  kLike,    // a tensor whose elements do not matter: no operand
  kScalar,  // also optional ones
  kFactor,
  kPosition,  // also optional ones
  kStatic,
  kDType,
  kRandom,
  kIgnore,
  kDrawn,    // stands for no argument: see Row::draws
  kNumbers,  // of a _foreach_ overload: a number, or a list of them, always at run time
};

struct Trait {
  const char* name;
  bool promotes = false;              // tensors and scalars are brought to the dtype that PyTorch's promotion gives
  bool broadcasts = false;            // tensors are broadcast to the shape of the first result
  bool commutes_with_layout = false;  // elementwise: every operand may be permuted alike
  bool widens = true;                 // narrower floats compute in float32
  bool one_dtype = false;             // tensors of different dtypes are an error that no meta function finds
  bool multiplies = false;            // torch.set_float32_matmul_precision() is for it
  bool apart = true;                  // where it broadcasts: no element depends on what else is there
};
inline constexpr Trait pointwise{"pointwise", true, true, true};  // TensorIterator ops
inline constexpr Trait together{
    .name = "pointwise", .promotes = true, .broadcasts = true, .commutes_with_layout = true, .apart = false};
inline constexpr Trait exact{"exact", true, true, true, false};  // pointwise, but nothing rounds: a number is
                                                                 // rounded to the common dtype, then compared
inline constexpr Trait broadcasting{"broadcasting", false, true, true};
inline constexpr Trait plain{"plain"};
inline constexpr Trait contraction{.name = "contraction", .one_dtype = true};
inline constexpr Trait multiplication{.name = "multiplication", .one_dtype = true, .multiplies = true};

// Why PyTorch would refuse a call, where its meta function does not say so; and what it returns. The call has its
// attributes and operands, no more.
using Refusal = Status (*)(const Call& call);
using ResultTypes = std::vector<Type> (*)(const Call& call);
// As operand `at`.
template <size_t at>
std::vector<Type> like(const Call& call) {
  return {*call.operands[at]};
}
// The dtype in which numbers come, by that of the first result.
using NumbersDType = DType (*)(DType result);
template <DType dtype>
DType always(DType /*result*/) {
  return dtype;
}
using Sizes = Dims (*)(std::span<const double> numbers);
// How the row works on operands with padding: growing.h. None: it reads them without.
struct Growth;
using Grows = bool (*)(Growth& growth);

struct Row {
  std::string name;
  Trait trait;
  std::vector<Arg> args;  // one per argument of the functional schema
  hlo::Emit emit = nullptr;

  // Options.
  std::vector<int> also_writes;     // arguments that the op writes although its schema does not say so
  int writes_if = -1;               // a bool argument: these are written only where it is true
  hlo::Emit check = nullptr;        // Debug mode: same operands -> int64[3] {whether an index is bad, it, the size}
  std::vector<int> format_of;       // where one of these arguments is channels_last, so is the first result
  bool computes_in_result = false;  // promotion takes the dtype of the (first) result, as reductions with out= do
  bool has_effect = false;          // done and ordered although nobody reads its results
  bool quick = false;               // takes little more time than reading its operands
  bool draws = false;               // its last parameter is Drawn
  NumbersDType numbers = nullptr;   // of Scalars in a row that does not promote; none: the first result's
  Sizes sizes = nullptr;            // where run-time numbers decide the size of a result: calls are told apart by it
  Refusal refusal = nullptr;
  ResultTypes result_types = nullptr;  // instead of PyTorch's meta function, where that lacks or is wrong
  Grows grows = nullptr;
  bool apart = false;  // each element by itself, so that it has the same bits however the compiler arranges its work
  bool joins = false;  // its list, along the dim after it: where tensors grow

  // The lowering returns them after the results of the schema.
  Row& writes(std::vector<int> arguments, int if_argument = -1) {
    also_writes = std::move(arguments);
    writes_if = if_argument;
    return *this;
  }
  // For operators whose meta functions forget the memory format.
  Row& channels_last_like(std::vector<int> arguments) {
    format_of = std::move(arguments);
    return *this;
  }
  Row& in_result_dtype() {
    computes_in_result = true;
    return *this;
  }
  Row& numbers_in(NumbersDType dtype) {
    numbers = dtype;
    return *this;
  }
  Row& sized_by(Sizes f) {
    sizes = f;
    return *this;
  }
  Row& refuses(Refusal why) {
    refusal = why;
    return *this;
  }
  Row& acts() {
    has_effect = true;
    return *this;
  }
  Row& is_quick() {
    quick = true;
    return *this;
  }
  Row& results(ResultTypes types) {
    result_types = types;
    return *this;
  }
  Row& grows_by(Grows f) {
    grows = f;
    return *this;
  }
  // Its tensors have the shape of its result, and no element depends on what else is there.
  Row& computes_apart();
  Row& joins_parts() {
    joins = true;
    apart = true;
    return *this;
  }
  // In Debug mode: values of tensor `index` must lie in [-size, size) of dimension `dim` of tensor `of`... see
  // bounds.h.
  template <typename F>
  Row& checks(F lowering);
};

namespace detail {

struct Unpacker {
  Builder& b;
  const Call& call;
  std::span<const Value> operands;
  const Trait& trait;
  size_t next_attribute = 0, next_operand = 0;

  const hlo::Attr& attribute() { return call.attributes[next_attribute++]; }
  Value operand(bool promote);
};

template <typename T>
struct ArgOf;

template <typename T>
T static_value(const hlo::Attr& attr);
template <>
int64_t static_value(const hlo::Attr& attr);
template <>
double static_value(const hlo::Attr& attr);
template <>
bool static_value(const hlo::Attr& attr);
template <>
std::string static_value(const hlo::Attr& attr);
template <>
Dims static_value(const hlo::Attr& attr);
template <>
std::vector<double> static_value(const hlo::Attr& attr);
template <>
DType static_value(const hlo::Attr& attr);
template <>
Number static_value(const hlo::Attr& attr);

template <typename T>
struct ArgOf {  // static values
  static constexpr Arg kKind = std::is_same_v<T, DType> ? Arg::kDType : Arg::kStatic;
  static T get(Unpacker& u) { return static_value<T>(u.attribute()); }
};
template <typename T>
struct ArgOf<std::optional<T>> {
  static constexpr Arg kKind = ArgOf<T>::kKind;
  static std::optional<T> get(Unpacker& u) {
    const hlo::Attr& attr = u.attribute();
    if (std::holds_alternative<std::monostate>(attr)) return std::nullopt;
    return static_value<T>(attr);
  }
};
template <>
struct ArgOf<Value> {
  static constexpr Arg kKind = Arg::kTensor;
  static Value get(Unpacker& u);
};
template <>
struct ArgOf<Raw> {
  static constexpr Arg kKind = Arg::kTensor;
  static Raw get(Unpacker& u);
};
template <>
struct ArgOf<Like> {
  static constexpr Arg kKind = Arg::kLike;
  static Like get(Unpacker& u) {
    u.attribute();
    return {};
  }
};
template <>
struct ArgOf<std::optional<Value>> {
  static constexpr Arg kKind = Arg::kOptionalTensor;
  static std::optional<Value> get(Unpacker& u);
};
template <>
struct ArgOf<std::optional<Raw>> {
  static constexpr Arg kKind = Arg::kOptionalTensor;
  static std::optional<Raw> get(Unpacker& u);
};
template <>
struct ArgOf<Values> {
  static constexpr Arg kKind = Arg::kTensors;
  static Values get(Unpacker& u);
};
template <>
struct ArgOf<OptionalValues> {
  static constexpr Arg kKind = Arg::kOptionalTensors;
  static OptionalValues get(Unpacker& u);
};
template <>
struct ArgOf<Scalar> {
  static constexpr Arg kKind = Arg::kScalar;
  static Scalar get(Unpacker& u);
};
template <>
struct ArgOf<Factor> {
  static constexpr Arg kKind = Arg::kFactor;
  static Factor get(Unpacker& u) { return Factor(ArgOf<Scalar>::get(u)); }
};
template <>
struct ArgOf<std::optional<Scalar>> {
  static constexpr Arg kKind = Arg::kScalar;
  static std::optional<Scalar> get(Unpacker& u);
};
template <>
struct ArgOf<std::optional<Factor>> {
  static constexpr Arg kKind = Arg::kFactor;
  static std::optional<Factor> get(Unpacker& u) {
    const auto scalar = ArgOf<std::optional<Scalar>>::get(u);
    return scalar ? std::optional(Factor(*scalar)) : std::nullopt;
  }
};
template <>
struct ArgOf<Position> {
  static constexpr Arg kKind = Arg::kPosition;
  static Position get(Unpacker& u);
};
template <>
struct ArgOf<std::optional<Position>> {
  static constexpr Arg kKind = Arg::kPosition;
  static std::optional<Position> get(Unpacker& u);
};
template <>
struct ArgOf<Random> {
  static constexpr Arg kKind = Arg::kRandom;
  static Random get(Unpacker& u);
};
template <>
struct ArgOf<Drawn> {
  static constexpr Arg kKind = Arg::kDrawn;
  static Drawn get(Unpacker& u);
};
template <>
struct ArgOf<Ignore> {
  static constexpr Arg kKind = Arg::kIgnore;
  static Ignore get(Unpacker& u) {
    u.attribute();
    return {};
  }
};

inline Values as_values(Value v) { return {v}; }
inline Values as_values(Values v) { return v; }

// Reads the lowering's parameters off its type.
template <typename F, typename Signature = decltype(&F::operator())>
struct Lowering;
template <typename F, typename R, typename... Args>
struct Lowering<F, R (F::*)(Builder&, Args...) const> {
  static std::vector<Arg> args() { return {ArgOf<std::decay_t<Args>>::kKind...}; }
  static Values emit(Builder& b, const Call& call, std::span<const Value> operands) {
    Unpacker u{b, call, operands, static_cast<const Row*>(call.data)->trait};
    std::tuple<std::decay_t<Args>...> values{ArgOf<std::decay_t<Args>>::get(u)...};
    return std::apply([&](auto&&... v) { return as_values(F{}(b, std::forward<decltype(v)>(v)...)); }, values);
  }
};
template <typename F, typename R, typename... Args>
struct Lowering<F, R (F::*)(Builder&, const Call&, Args...) const> {
  static std::vector<Arg> args() { return {ArgOf<std::decay_t<Args>>::kKind...}; }
  static Values emit(Builder& b, const Call& call, std::span<const Value> operands) {
    Unpacker u{b, call, operands, static_cast<const Row*>(call.data)->trait};
    std::tuple<std::decay_t<Args>...> values{ArgOf<std::decay_t<Args>>::get(u)...};
    return std::apply([&](auto&&... v) { return as_values(F{}(b, call, std::forward<decltype(v)>(v)...)); }, values);
  }
};

template <auto kFunction, typename = decltype(kFunction)>
struct Function;
template <auto kFunction, typename R, typename... Args>
struct Function<kFunction, R (*)(Args...)> {
  R operator()(Args... args) const { return kFunction(std::forward<Args>(args)...); }
};

}  // namespace detail

// A function as a lowering: ops.add("elu", pointwise, lowering<elu>).
template <auto kFunction>
inline constexpr detail::Function<kFunction> lowering{};

template <typename F>
Row& Row::checks(F) {
  check = detail::Lowering<F>::emit;
  return *this;
}

class Table {
 public:
  template <typename F>
  Row& add(const char* name, const Trait& trait, F) {
    static_assert(std::is_empty_v<F>, "a lowering captures nothing");
    Row row;
    row.name = name;
    row.trait = trait;
    row.args = detail::Lowering<F>::args();
    row.emit = detail::Lowering<F>::emit;
    return insert(std::move(row));
  }
  const Row* find(const std::string& name) const;
  const std::map<std::string, Row>& rows() const { return rows_; }

 private:
  Row& insert(Row row);
  std::map<std::string, Row> rows_;  // stable addresses
};

// All rows. Built on first use.
const Table& table();

}  // namespace tpu::ops
