#include "hlo/builder_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tpu::hlo {

void fail(std::string_view op, const Values& operands, std::string_view why) {
  throw BuildError(text::concat({op, "(", text::types(operands), "): ", why}));
}

void require_values(std::string_view op, const Values& operands) {
  for (const Value& v : operands) require(static_cast<bool>(v), op, operands, "an operand is missing");
}

Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool contains(const Dims& v, int64_t x) { return std::ranges::find(v, x) != v.end(); }

std::vector<Type> types_of(const Values& v) {
  std::vector<Type> types;
  for (const Value& x : v) types.push_back(*x.type);
  return types;
}

namespace text {
namespace {

template <typename Range, typename Spell>
std::string joined(const Range& range, Spell spell) {
  std::string s;
  for (const auto& x : range) {
    if (!s.empty()) s += ", ";
    s += spell(x);
  }
  return s;
}

std::string spell_type(const Value& v) { return v ? v.type->str() : "nothing"; }

std::string hex(uint64_t bits, int64_t bytes) {
  std::string s = "0x";
  for (int64_t shift = 8 * bytes - 4; shift >= 0; shift -= 4) s += "0123456789ABCDEF"[bits >> shift & 15];
  return s;
}

// What a decimal literal cannot say: MLIR rounds it to the nearest value of the type, but spells neither infinity nor
// NaN.
struct FloatFormat {
  double overflow;       // the first magnitude that rounds beyond the largest finite value
  uint64_t nan, beyond;  // bits of NaN, and of what PyTorch makes of an overflow
  bool is_signed;        // `beyond` takes the sign
};

FloatFormat format_of(DType t) {
  switch (t) {
    case DType::kF16: return {65520, 0x7E00, 0x7C00, true};
    case DType::kBF16: return {0x1.FFp127, 0x7FC0, 0x7F80, true};
    case DType::kF32: return {0x1.FFFFFFp127, 0x7FC00000, 0x7F800000, true};
    case DType::kF64: return {INFINITY, 0x7FF8000000000000, 0x7FF0000000000000, true};
    case DType::kF8E5M2: return {61440, 0x7E, 0x7C, true};
    case DType::kF8E4M3FN: return {464, 0x7F, 0x7E, true};  // saturates
    case DType::kF8E4M3FNUZ: return {248, 0x80, 0x80, false};
    case DType::kF8E5M2FNUZ: return {61440, 0x80, 0x80, false};
    default: throw BuildError(concat({"constant: ", mlir_name(t), " is no floating type"}));
  }
}

// MLIR wants digits, a point, then perhaps an exponent.
std::string decimal(double v) {
  char buffer[32];
  std::string s(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
  const size_t exponent = s.find('e');
  if (s.find('.') == s.npos) s.insert(exponent == s.npos ? s.size() : exponent, ".0");
  return s;
}

std::string float_literal(double v, DType dtype) {
  const FloatFormat format = format_of(dtype);
  if (std::isnan(v)) return hex(format.nan, size_of(dtype));
  if (std::abs(v) < format.overflow) return decimal(v);
  const uint64_t sign = format.is_signed && v < 0 ? uint64_t{1} << (8 * size_of(dtype) - 1) : 0;
  return hex(format.beyond | sign, size_of(dtype));
}

int64_t truncated(double v) {
  if (std::isnan(v)) throw BuildError("constant: NaN has no integer value");
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (v < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(v);
}

}  // namespace

std::string concat(std::initializer_list<std::string_view> parts) {
  std::string s;
  size_t size = 0;
  for (std::string_view part : parts) size += part.size();
  s.reserve(size);
  for (std::string_view part : parts) s += part;
  return s;
}

std::string list(const Dims& v) {
  return concat({"[", joined(v, [](int64_t d) { return std::to_string(d); }), "]"});
}

std::string array(const Dims& v) {
  return concat({v.empty() ? "array<i64" : "array<i64: ", joined(v, [](int64_t d) { return std::to_string(d); }), ">"});
}

std::string padding(const Dims& low, const Dims& high) {
  std::string pairs;
  for (size_t i = 0; i < low.size(); ++i) pairs += (i ? ", " : "") + list({low[i], high[i]});
  if (!low.empty()) pairs = "[" + pairs + "]";
  return concat({"dense<", pairs, "> : tensor<", std::to_string(low.size()), "x2xi64>"});
}

std::string names(const Values& v) {
  return joined(v, [](const Value& x) { return "%" + std::to_string(x.id); });
}

std::string types(const Values& v) { return joined(v, spell_type); }

std::string signature(const Values& operands, const std::vector<Type>& results) {
  const std::string to = joined(results, [](const Type& t) { return t.str(); });
  if (results.size() == 1) return concat({"(", types(operands), ") -> ", to});
  return concat({"(", types(operands), ") -> (", to, ")"});
}

std::string literal(double v, DType dtype) {
  if (dtype == DType::kBool) return v != 0 ? "true" : "false";
  if (dtype == DType::kU64 && v >= 0x1p63 && v < 0x1p64) return std::to_string(static_cast<uint64_t>(v));
  if (is_int(dtype)) return literal(truncated(v), dtype);
  const std::string part = float_literal(v, real_of(dtype));
  return is_complex(dtype) ? concat({"(", part, ", 0.0)"}) : part;
}

std::string literal(int64_t v, DType dtype) {
  switch (dtype) {  // wraps, as a conversion between integers does
    case DType::kS8: return std::to_string(static_cast<int8_t>(v));
    case DType::kS16: return std::to_string(static_cast<int16_t>(v));
    case DType::kS32: return std::to_string(static_cast<int32_t>(v));
    case DType::kS64: return std::to_string(v);
    case DType::kU8: return std::to_string(static_cast<uint8_t>(v));
    case DType::kU16: return std::to_string(static_cast<uint16_t>(v));
    case DType::kU32: return std::to_string(static_cast<uint32_t>(v));
    case DType::kU64: return std::to_string(static_cast<uint64_t>(v));
    case DType::kBool: return v != 0 ? "true" : "false";
    default: return literal(static_cast<double>(v), dtype);
  }
}

}  // namespace text
}  // namespace tpu::hlo
