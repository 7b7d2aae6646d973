// Operations that work element by element.
#include <algorithm>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

// Which element types an operation takes: b bool, s signed, u unsigned, f floating, c complex.
struct Form {
  std::string_view op, takes;
};

constexpr Form kForms[] = {
    {"abs", "sfc"},
    {"negate", "sufc"},
    {"sign", "sfc"},
    {"exponential", "fc"},
    {"log", "fc"},
    {"log_plus_one", "fc"},
    {"sqrt", "fc"},
    {"exponential_minus_one", "fc"},
    {"rsqrt", "fc"},
    {"cbrt", "f"},
    {"tanh", "fc"},
    {"logistic", "fc"},
    {"sine", "fc"},
    {"cosine", "fc"},
    {"tan", "fc"},
    {"floor", "f"},
    {"ceil", "f"},
    {"is_finite", "f"},
    {"not", "bsu"},
    {"round_nearest_even", "f"},
    {"popcnt", "su"},
    {"real", "c"},
    {"imag", "c"},
    {"round_nearest_afz", "f"},
    {"add", "bsufc"},
    {"subtract", "sufc"},
    {"multiply", "bsufc"},
    {"count_leading_zeros", "su"},
    {"divide", "sufc"},
    {"remainder", "suf"},
    {"power", "sufc"},
    {"maximum", "bsuf"},
    {"minimum", "bsuf"},
    {"atan2", "fc"},
    {"and", "bsu"},
    {"or", "bsu"},
    {"xor", "bsu"},
    {"shift_left", "su"},
    {"complex", "f"},
    {"shift_right_logical", "su"},
    {"compare", "bsufc"},
    {"clamp", "suf"},
    {"shift_right_arithmetic", "su"},
};

char kind(DType t) {
  return t == DType::kBool ? 'b' : is_complex(t) ? 'c' : is_float(t) ? 'f' : is_unsigned(t) ? 'u' : 's';
}

constexpr std::string_view kDialect = "stablehlo.";

// Operations that the list lacks (all of CHLO) are not checked here.
void check(std::string_view op, const Values& operands) {
  require_values(op, operands);
  for (const Value& v : operands) {
    require(v.dtype() == operands[0].dtype(), op, operands, "the element types differ");
  }
  if (!op.starts_with(kDialect)) return;
  const auto* form = std::ranges::find(kForms, op.substr(kDialect.size()), &Form::op);
  const bool ok = form == std::end(kForms) || form->takes.find(kind(operands[0].dtype())) != form->takes.npos;
  require(ok, op, operands, "not defined for this element type");
}

DType result_of(std::string_view op, DType x) {
  if (op == "stablehlo.abs" || op == "stablehlo.real" || op == "stablehlo.imag") return real_of(x);
  if (op == "stablehlo.is_finite" || op.starts_with("chlo.is_")) return DType::kBool;
  return x;
}

// The common dims of operands that are equal but for rank 0.
const Dims& common_dims(std::string_view op, const Values& operands) {
  const Dims* dims = &operands[0].dims();
  for (const Value& v : operands) {
    if (dims->empty()) dims = &v.dims();
    require(v.rank() == 0 || v.dims() == *dims, op, operands, "the dims differ");
  }
  return *dims;
}

std::string_view direction(Compare how) {
  constexpr std::string_view kNames[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  return kNames[static_cast<size_t>(how)];
}

bool is_bool(Value v) { return v.dtype() == DType::kBool; }
bool is_exact(Value v) { return is_int(v.dtype()) || is_bool(v); }

}  // namespace

Value Builder::unary(std::string_view op, Value x) {
  check(op, {x});
  const DType dtype = result_of(op, x.dtype());
  return in_loop(op, {x}, [&](const Values& operands) {
    if (op.starts_with(kDialect) && dtype == x.dtype()) return uniform(op, operands);
    return generic(op, operands, "", {}, {{dtype, x.dims()}})[0];
  });
}

Value Builder::binary(std::string_view op, Value a, Value b) {
  check(op, {a, b});
  const Dims dims = common_dims(op, {a, b});
  return in_loop(op, {broadcast_to(a, dims), broadcast_to(b, dims)}, [&](const Values& operands) {
    if (op.starts_with(kDialect)) return uniform(op, operands);
    return generic(op, operands, "", {}, {*operands[0].type})[0];
  });
}

Value Builder::neg(Value x) { return unary("stablehlo.negate", x); }
Value Builder::abs(Value x) { return is_bool(x) || is_unsigned(x.dtype()) ? x : unary("stablehlo.abs", x); }
Value Builder::sign(Value x) {
  if (is_bool(x)) return x;
  return is_unsigned(x.dtype()) ? convert(convert(x, DType::kBool), x.dtype()) : unary("stablehlo.sign", x);
}
Value Builder::exp(Value x) { return unary("stablehlo.exponential", x); }
Value Builder::expm1(Value x) { return unary("stablehlo.exponential_minus_one", x); }
Value Builder::log(Value x) { return unary("stablehlo.log", x); }
Value Builder::log1p(Value x) { return unary("stablehlo.log_plus_one", x); }
Value Builder::sqrt(Value x) { return unary("stablehlo.sqrt", x); }
Value Builder::rsqrt(Value x) { return unary("stablehlo.rsqrt", x); }
Value Builder::cbrt(Value x) { return unary("stablehlo.cbrt", x); }
Value Builder::tanh(Value x) { return unary("stablehlo.tanh", x); }
Value Builder::logistic(Value x) { return unary("stablehlo.logistic", x); }
Value Builder::sin(Value x) { return unary("stablehlo.sine", x); }
Value Builder::cos(Value x) { return unary("stablehlo.cosine", x); }
Value Builder::tan(Value x) { return unary("stablehlo.tan", x); }
// Integers are whole and finite already.
Value Builder::floor(Value x) { return is_exact(x) ? x : unary("stablehlo.floor", x); }
Value Builder::ceil(Value x) { return is_exact(x) ? x : unary("stablehlo.ceil", x); }
Value Builder::round_even(Value x) { return is_exact(x) ? x : unary("stablehlo.round_nearest_even", x); }
Value Builder::round_away(Value x) { return is_exact(x) ? x : unary("stablehlo.round_nearest_afz", x); }
Value Builder::is_finite(Value x) {
  if (is_exact(x)) return full(1, DType::kBool, x.dims());
  if (!is_complex(x.dtype())) return unary("stablehlo.is_finite", x);
  const Value re = is_finite(real(x));
  return and_(re, is_finite(imag(x)));
}
Value Builder::not_(Value x) { return unary("stablehlo.not", x); }
Value Builder::popcnt(Value x) { return unary("stablehlo.popcnt", x); }
Value Builder::clz(Value x) { return unary("stablehlo.count_leading_zeros", x); }
Value Builder::real(Value x) { return is_complex(x.dtype()) ? unary("stablehlo.real", x) : x; }
Value Builder::imag(Value x) { return is_complex(x.dtype()) ? unary("stablehlo.imag", x) : zeros_like(x); }

Value Builder::add(Value a, Value b) { return is_bool(a) ? or_(a, b) : commutative("stablehlo.add", a, b); }
Value Builder::sub(Value a, Value b) {
  if (elements_of(b) == 1 && elements_of(a) > 1) return add(neg(b), a);  // the same, exactly
  return binary("stablehlo.subtract", a, b);
}
Value Builder::mul(Value a, Value b) { return is_bool(a) ? and_(a, b) : commutative("stablehlo.multiply", a, b); }
Value Builder::div(Value a, Value b) { return binary("stablehlo.divide", a, b); }
Value Builder::rem(Value a, Value b) { return binary("stablehlo.remainder", a, b); }
Value Builder::pow(Value a, Value b) { return binary("stablehlo.power", a, b); }
Value Builder::max(Value a, Value b) { return is_bool(a) ? or_(a, b) : commutative("stablehlo.maximum", a, b); }
Value Builder::min(Value a, Value b) { return is_bool(a) ? and_(a, b) : commutative("stablehlo.minimum", a, b); }
Value Builder::atan2(Value a, Value b) { return binary("stablehlo.atan2", a, b); }
Value Builder::and_(Value a, Value b) { return binary("stablehlo.and", a, b); }
Value Builder::or_(Value a, Value b) { return binary("stablehlo.or", a, b); }
Value Builder::xor_(Value a, Value b) { return binary("stablehlo.xor", a, b); }
Value Builder::shl(Value a, Value b) { return binary("stablehlo.shift_left", a, b); }
Value Builder::shr_logical(Value a, Value b) { return binary("stablehlo.shift_right_logical", a, b); }
Value Builder::shr_arithmetic(Value a, Value b) { return binary("stablehlo.shift_right_arithmetic", a, b); }

Value Builder::complex(Value re, Value im) {
  constexpr std::string_view op = "stablehlo.complex";
  check(op, {re, im});
  require(!is_reduced(re.dtype()), op, {re, im}, "parts are f32 or f64");
  const Dims dims = common_dims(op, {re, im});
  return call(op, {broadcast_to(re, dims), broadcast_to(im, dims)}, "", {complex_of(re.dtype()), dims});
}

Value Builder::compare(Compare how, Value a, Value b) {
  constexpr std::string_view op = "stablehlo.compare";
  check(op, {a, b});
  const bool ordered = how != Compare::kEq && how != Compare::kNe;
  require(!ordered || !is_complex(a.dtype()), op, {a, b}, "complex numbers have no order");
  const Dims dims = common_dims(op, {a, b});
  const Type result{DType::kBool, dims};
  const char k = kind(a.dtype());
  const std::string_view type = k == 'f' || k == 'c' ? "FLOAT" : k == 's' ? "SIGNED" : "UNSIGNED";
  return in_loop(op, {broadcast_to(a, dims), broadcast_to(b, dims)}, [&](const Values& operands) {
    return line(result, text::concat({op, " ", direction(how), ", ", text::names(operands), ", ", type, " : ",
                                      text::signature(operands, {result})}));
  });
}

Value Builder::select(Value predicate, Value a, Value b) {
  constexpr std::string_view op = "stablehlo.select";
  check(op, {a, b});
  require(predicate && is_bool(predicate), op, {predicate, a, b}, "the predicate is not bool");
  const Dims dims = common_dims(op, {predicate, a, b});
  return in_loop(op, {predicate, broadcast_to(a, dims), broadcast_to(b, dims)}, [&](const Values& operands) {
    const Values typed = {operands[0], operands[1]};
    return line(*typed[1].type, text::concat({op, " ", text::names(operands), " : ", text::types(typed)}));
  });
}

Value Builder::clamp(Value lo, Value x, Value hi) {
  constexpr std::string_view op = "stablehlo.clamp";
  check(op, {lo, x, hi});
  const Dims dims = common_dims(op, {lo, x, hi});
  return in_loop(op, {broadcast_to(lo, dims), broadcast_to(x, dims), broadcast_to(hi, dims)},
                 [&](const Values& operands) { return uniform(op, operands); });
}

// --- between element types ------------------------------------------------------------------------------------------

Value Builder::convert(Value x, DType to) {
  const DType from = x.dtype();
  if (from == to) return x;
  if (to == DType::kBool) return ne(x, scalar(0, from));
  if (is_complex(from) && !is_complex(to)) return convert(real(x), to);
  // XLA makes a product with a converted bool a choice of 0, also where the other factor is NaN or infinite.
  if (from == DType::kBool && is_float(to)) return select(x, scalar(1, to), scalar(0, to));
  if (is_complex(to) && !is_complex(from)) return complex(convert(x, real_of(to)), scalar(0, real_of(to)));
  if (to == DType::kF8E4M3FN && from != DType::kBool) {  // PyTorch saturates, XLA makes NaN
    x = convert(x, is_float(from) && size_of(from) > 1 ? from : DType::kF32);
    x = clamp(scalar(-448, x.dtype()), x, scalar(448, x.dtype()));
  } else if (is_float(from)) {
    // XLA saturates; C++ on x86, so PyTorch, goes through a wider integer and wraps: -1.0 is 255 as a byte.
    if (to == DType::kU8 || to == DType::kU32) return convert(convert(x, DType::kS64), to);
    if (to == DType::kS8 || to == DType::kS16 || to == DType::kU16) return convert(convert(x, DType::kS32), to);
    if (to == DType::kU64) {
      const Value wrapped = convert(convert(x, DType::kS64), to);
      const Value direct = convert_directly(x, to);
      return select(lt(x, scalar(0, from)), wrapped, direct);
    }
  }
  return convert_directly(x, to);
}

Value Builder::convert_directly(Value x, DType to) {
  constexpr std::string_view op = "stablehlo.convert";
  return in_loop(op, {x}, [&](const Values& operands) { return call(op, operands, "", {to, x.dims()}); });
}

Value Builder::bitcast(Value x, DType to) {
  constexpr std::string_view op = "stablehlo.bitcast_convert";
  const DType from = x.dtype();
  const auto has_bits = [](DType t) { return t != DType::kBool && !is_complex(t); };
  if (from == to) return x;
  require(has_bits(from) && has_bits(to), op, {x}, "bool and complex have no bits to cast");
  Dims dims = x.dims();
  if (size_of(from) > size_of(to)) {
    dims.push_back(size_of(from) / size_of(to));
  } else if (size_of(from) < size_of(to)) {
    const bool fits = !dims.empty() && dims.back() * size_of(from) == size_of(to);
    require(fits, op, {x}, text::concat({"the innermost dimension is no ", mlir_name(to)}));
    dims.pop_back();
  }
  return call(op, {x}, "", {to, dims});
}

}  // namespace tpu::hlo
