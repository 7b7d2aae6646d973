#include "ops/division.h"
#include "ops/families.h"
#include "ops/float_bits.h"
#include "ops/refusing.h"
#include "ops/rounding.h"

namespace tpu::ops {
namespace {

// A row per overload of a binary operator: tensors, tensor and number, number and tensor.
struct Names {
  const char *tensor, *scalar = nullptr, *scalar_tensor = nullptr;
};
template <typename F>
void add_binary(Table& ops, const Trait& trait, const Names& names, F, Refusal why = nullptr) {
  ops.add(names.tensor, trait, [](Builder& b, Value x, Value y) { return F{}(b, x, y); }).refuses(why);
  if (names.scalar) {
    ops.add(names.scalar, trait, [](Builder& b, Value x, Scalar y) { return F{}(b, x, Value(y)); }).refuses(why);
  }
  if (names.scalar_tensor) {
    ops.add(names.scalar_tensor, trait, [](Builder& b, Scalar x, Value y) { return F{}(b, Value(x), y); }).refuses(why);
  }
}

Value constant(Builder& b, Value like, double v) { return b.scalar(v, like.dtype()); }
bool whole(Value x) { return is_int(x.dtype()) || x.dtype() == DType::kBool; }

// Quotients and remainders of two bools are no numbers; of a bool and a number they are.
Status are_no_flags(const Call& call) {
  if (call.operands.size() != 2) return {};
  for (const hlo::Type* operand : call.operands) {
    if (operand->dtype != DType::kBool) return {};
  }
  return {Code::kUnimplemented, "\"" + name_of(call) + "\" not implemented for 'Bool'"};
}

// The signs of a remainder and its divisor differ, and there is a remainder.
Value must_step(Builder& b, Value rest, Value y) {
  const Value zero = constant(b, rest, 0);
  return b.and_(b.ne(rest, zero), b.ne(b.lt(rest, zero), b.lt(y, zero)));
}

Value remainder(Builder& b, Value x, Value y) {
  const Value rest = b.rem(x, y);
  if (is_unsigned(rest.dtype())) return rest;
  return b.select(must_step(b, rest, y), b.add(rest, y), rest);
}

Value floor_divide(Builder& b, Value x, Value y) {
  if (is_unsigned(x.dtype())) return b.div(x, y);
  const Value rest = b.rem(x, y), step = must_step(b, rest, y), one = constant(b, x, 1);
  if (whole(x)) {
    const Value quotient = b.div(x, y);
    return b.select(step, b.sub(quotient, one), quotient);
  }
  // Python's floor division: exact where the quotient of the rounded division is not.
  Value quotient = divide_by_broadcast(b, b.sub(x, rest), y);
  quotient = b.select(step, b.sub(quotient, one), quotient);
  const Value low = b.floor(quotient), plain = divide_by_broadcast(b, x, y), zero = constant(b, x, 0);
  const Value nearest = b.select(b.gt(b.sub(quotient, low), constant(b, x, 0.5)), b.add(low, one), low);
  const Value finite = b.select(b.ne(quotient, zero), nearest, copysign(b, b.zeros_like(plain), plain));
  return b.select(b.eq(y, zero), plain, finite);
}

Value truncate(Builder& b, Value x) { return b.select(b.lt(x, constant(b, x, 0)), b.ceil(x), b.floor(x)); }

bool same_shapes(const Call& call) {
  return call.operands.size() == 2 && call.operands[1]->dims == call.operands[0]->dims;
}

Value divide(Builder& b, const Call& call, Value x, Value y, const optional<std::string>& rounding) {
  if (!rounding) return same_shapes(call) ? b.div(x, y) : divide_by_broadcast(b, x, y);
  if (*rounding == "floor") return floor_divide(b, x, y);
  if (whole(x)) return b.div(x, y);
  return truncate(
      b, round_to(b, divide_by_broadcast(b, x, y), call.results[0]->dtype));  // PyTorch rounds the quotient first
}

Value general_power(Builder& b, Value x, Value y) {
  const Value power = b.pow(x, y);
  if (!is_complex(x.dtype())) return power;
  const Value zero = b.zeros_like(x), positive = b.gt(b.real(y), b.scalar(0, real_of(y.dtype())));
  return b.select(b.and_(b.eq(x, zero), positive), zero, power);
}

Value power(Builder& b, const Call& call, Value x, const Number& exponent) {
  const DType result = opmath_of(call.results[0]->dtype);
  if (is_complex(result)) x = b.convert(x, result);
  if (!exponent.is_complex()) {
    const double e = exponent.to_double();
    const Value one = b.full_like(x, 1);
    if (e == 0) return one;
    if (e == 1) return x;
    if (e == 2) return b.mul(x, x);
    if (e == 3) return b.mul(b.mul(x, x), x);
    if (!whole(x) && e == 0.5) return b.sqrt(x);
    if (!whole(x) && e == -0.5) return b.rsqrt(x);
    if (!whole(x) && e == -1) return b.div(one, x);
    if (!whole(x) && e == -2) return b.div(one, b.mul(x, x));
  }
  return general_power(b, x, exponent.in(b, x.dtype()));
}

Value lerp(Builder& b, Value start, Value end, Value weight) {
  const Value half = b.scalar(0.5, real_of(weight.dtype())), gap = b.sub(end, start);
  const Value near_end = b.sub(end, b.mul(gap, b.sub(constant(b, weight, 1), weight)));
  return b.select(b.lt(b.abs(weight), half), b.add(start, b.mul(weight, gap)), near_end);
}

Value hypot(Builder& b, Value x, Value y) {
  x = b.abs(x), y = b.abs(y);
  const Value large = b.max(x, y), small = b.min(x, y), zero = constant(b, large, 0);
  const Value ratio = b.div(small, large);
  const Value scaled = b.mul(large, b.sqrt(b.add(constant(b, ratio, 1), b.mul(ratio, ratio))));
  const Value infinite = b.or_(b.eq(x, b.highest(x.dtype())), b.eq(y, b.highest(x.dtype())));
  return b.select(infinite, b.highest(x.dtype()), b.select(b.eq(large, zero), large, scaled));
}

template <bool kMax>
Value without_nan(Builder& b, Value x, Value y) {
  const Value best = kMax ? b.max(x, y) : b.min(x, y);
  if (whole(x)) return best;
  return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, best));
}

// max + log1p(base^-|x - y|) in terms of exp and log.
Value logaddexp(Builder& b, Value x, Value y, double log_of_base) {
  const Value scale = constant(b, x, log_of_base);
  if (is_complex(x.dtype())) {
    const Value first = b.ge(b.real(x), b.real(y)), large = b.select(first, x, y), small = b.select(first, y, x);
    return b.add(large, b.log1p(b.exp(b.sub(small, large))));
  }
  const Value gap = b.neg(b.abs(b.sub(x, y)));
  const Value rest = b.div(b.log1p(b.exp(b.mul(gap, scale))), scale);
  const Value infinite = b.and_(b.eq(x, y), b.not_(b.is_finite(x)));
  return b.select(infinite, x, b.add(b.max(x, y), rest));
}

Value gcd(Builder& b, Value x, Value y) {
  const auto some_left = [&](const Values& v) {
    const Value left = b.ne(v[1], b.zeros_like(v[1]));
    return Values{b.reduce(hlo::Reduce::kOr, b.flatten(left), {0})};
  };
  const auto step = [&](const Values& v) {
    const Value done = b.eq(v[1], b.zeros_like(v[1]));
    const Value divisor = b.select(done, b.full_like(v[1], 1), v[1]);
    return Values{b.select(done, v[0], v[1]), b.select(done, v[1], b.rem(v[0], divisor))};
  };
  return b.abs(b.while_({x, y}, some_left, step)[0]);
}

Value lcm(Builder& b, Value x, Value y) {
  const Value common = gcd(b, x, y), zero = b.zeros_like(common);
  const Value safe = b.select(b.eq(common, zero), b.full_like(common, 1), common);
  return b.abs(b.mul(b.div(x, safe), y));
}

template <typename F>
void add_logical(Table& ops, const char* name, F) {
  ops.add(name, broadcasting,
          [](Builder& b, Raw x, Raw y) { return F{}(b, b.convert(x, DType::kBool), b.convert(y, DType::kBool)); });
}

void add_bitwise(Table& ops) {
  add_binary(
      ops, pointwise, {"bitwise_and.Tensor", "bitwise_and.Scalar", "bitwise_and.Scalar_Tensor"},
      [](Builder& b, Value x, Value y) { return b.and_(x, y); }, are_whole);
  add_binary(
      ops, pointwise, {"bitwise_or.Tensor", "bitwise_or.Scalar", "bitwise_or.Scalar_Tensor"},
      [](Builder& b, Value x, Value y) { return b.or_(x, y); }, are_whole);
  add_binary(
      ops, pointwise, {"bitwise_xor.Tensor", "bitwise_xor.Scalar", "bitwise_xor.Scalar_Tensor"},
      [](Builder& b, Value x, Value y) { return b.xor_(x, y); }, are_whole);
  ops.add("bitwise_not", pointwise, [](Builder& b, Value x) { return b.not_(x); }).refuses(are_whole);
  const auto left = [](Builder& b, Value x, Value y) { return b.shl(x, y); };
  const auto right = [](Builder& b, Value x, Value y) {
    return is_unsigned(x.dtype()) ? b.shr_logical(x, y) : b.shr_arithmetic(x, y);
  };
  add_binary(ops, pointwise,
             {"bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift.Scalar_Tensor"},
             left, [](const Call& call) { return are_whole(call, "lshift"); });
  add_binary(ops, pointwise,
             {"bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift.Scalar_Tensor"},
             right, [](const Call& call) { return are_whole(call, "rshift"); });
  add_binary(ops, pointwise, {"__lshift__.Tensor", "__lshift__.Scalar"}, left,
             [](const Call& call) { return are_whole(call, "lshift"); });
  add_binary(ops, pointwise, {"__rshift__.Tensor", "__rshift__.Scalar"}, right,
             [](const Call& call) { return are_whole(call, "rshift"); });
  add_logical(ops, "logical_and", [](Builder& b, Value x, Value y) { return b.and_(x, y); });
  add_logical(ops, "logical_or", [](Builder& b, Value x, Value y) { return b.or_(x, y); });
  add_logical(ops, "logical_xor", [](Builder& b, Value x, Value y) { return b.xor_(x, y); });
  ops.add("logical_not", broadcasting, [](Builder& b, Raw x) { return b.not_(b.convert(x, DType::kBool)); });
}

void add_division(Table& ops) {
  ops.add("div.Tensor", pointwise,
          [](Builder& b, const Call& call, Value x, Value y) { return divide(b, call, x, y, std::nullopt); });
  ops.add("div.Scalar", pointwise,
          [](Builder& b, const Call& call, Value x, Scalar y) { return divide(b, call, x, y, std::nullopt); });
  ops.add("div.Tensor_mode", pointwise,
          [](Builder& b, const Call& call, Value x, Value y, optional<std::string> rounding) {
            return divide(b, call, x, y, rounding);
          })
      .refuses([](const Call& call) {
        return std::holds_alternative<std::monostate>(call.attributes[2]) ? Status() : are_no_flags(call);
      });
  ops.add("div.Scalar_mode", pointwise,
          [](Builder& b, const Call& call, Value x, Scalar y, optional<std::string> rounding) {
            return divide(b, call, x, y, rounding);
          });
  add_binary(ops, pointwise, {"floor_divide", "floor_divide.Scalar"}, lowering<floor_divide>, are_no_flags);
  add_binary(ops, pointwise, {"remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"}, lowering<remainder>,
             are_no_flags);
  add_binary(
      ops, pointwise, {"fmod.Tensor", "fmod.Scalar"}, [](Builder& b, Value x, Value y) { return b.rem(x, y); },
      are_no_flags);
  add_binary(ops, pointwise, {"gcd"}, lowering<gcd>, are_whole);
  add_binary(ops, pointwise, {"lcm"}, lowering<lcm>, are_whole);
}

}  // namespace

void add_pointwise(Table& ops) {
  const auto add = [](Builder& b, Value x, Value y, Factor alpha) {
    return b.add(x, alpha.is(1) ? y : b.mul(y, alpha));
  };
  const auto sub = [](Builder& b, Value x, Value y, Factor alpha) {
    return b.sub(x, alpha.is(1) ? y : b.mul(y, alpha));
  };
  ops.add("add.Tensor", pointwise, add);
  ops.add("sub.Tensor", pointwise, sub);
  ops.add("rsub.Tensor", pointwise,
          [](Builder& b, Value x, Value y, Factor alpha) { return b.sub(y, alpha.is(1) ? x : b.mul(x, alpha)); });
  ops.add("add.Scalar", pointwise, [](Builder& b, Value x, Scalar y, Factor alpha) {
    return b.add(x, alpha.is(1) ? Value(y) : b.mul(y, alpha));
  });
  ops.add("sub.Scalar", pointwise, [](Builder& b, Value x, Scalar y, Factor alpha) {
    return b.sub(x, alpha.is(1) ? Value(y) : b.mul(y, alpha));
  });
  ops.add("rsub.Scalar", pointwise,
          [](Builder& b, Value x, Scalar y, Factor alpha) { return b.sub(y, alpha.is(1) ? x : b.mul(x, alpha)); });
  add_binary(ops, pointwise, {"mul.Tensor", "mul.Scalar"}, [](Builder& b, Value x, Value y) { return b.mul(x, y); });
  add_division(ops);
  add_bitwise(ops);

  add_binary(ops, pointwise, {"pow.Tensor_Tensor", nullptr, "pow.Scalar"}, lowering<general_power>);
  ops.add("pow.Tensor_Scalar", pointwise, lowering<power>);
  add_binary(ops, pointwise, {"atan2"}, [](Builder& b, Value x, Value y) { return b.atan2(x, y); });
  add_binary(ops, pointwise, {"hypot"}, lowering<hypot>);
  add_binary(ops, pointwise, {"copysign.Tensor", "copysign.Scalar"}, lowering<copysign>);
  add_binary(ops, pointwise, {"logaddexp"}, [](Builder& b, Value x, Value y) { return logaddexp(b, x, y, 1); });
  add_binary(ops, pointwise, {"logaddexp2"},
             [](Builder& b, Value x, Value y) { return logaddexp(b, x, y, 0.69314718055994530942); });
  add_binary(ops, pointwise, {"xlogy.Tensor"}, [](Builder& b, Value x, Value y) {
    const Value zero = b.zeros_like(x);
    return b.select(b.is_nan(y), y, b.select(b.eq(x, zero), zero, b.mul(x, b.log(y))));
  });
  add_binary(ops, exact, {"nextafter"}, [](Builder& b, Value x, Value y) { return b.binary("chlo.next_after", x, y); });
  add_binary(ops, exact, {"heaviside"}, [](Builder& b, Value x, Value y) {
    const Value zero = constant(b, x, 0);
    return b.select(b.eq(x, zero), y, b.convert(b.gt(x, zero), x.dtype()));
  });
  add_binary(ops, exact, {"maximum"}, [](Builder& b, Value x, Value y) { return b.max(x, y); });
  add_binary(ops, exact, {"minimum"}, [](Builder& b, Value x, Value y) { return b.min(x, y); });
  add_binary(ops, exact, {"fmax"}, lowering<without_nan<true>>);
  add_binary(ops, exact, {"fmin"}, lowering<without_nan<false>>);

  ops.add("lerp.Tensor", pointwise, lowering<lerp>);
  ops.add("lerp.Scalar", pointwise, [](Builder& b, Value x, Value y, Scalar w) { return lerp(b, x, y, w); });
  ops.add("addcmul", pointwise, [](Builder& b, Value x, Value y, Value z, Factor value) {
    return b.add(x, b.mul(value.is(1) ? y : b.mul(value, y), z));
  });
  ops.add("addcdiv", pointwise, [](Builder& b, Value x, Value y, Value z, Factor value) {
    return b.add(x, b.div(value.is(1) ? y : b.mul(value, y), z));
  });
}

}  // namespace tpu::ops
