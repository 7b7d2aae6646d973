#include "hlo/builder.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

std::string symbol(std::string_view name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string s(name.empty() ? "program" : name);
  std::replace_if(s.begin(), s.end(), std::not_fn(plain), '_');
  return std::isdigit(static_cast<unsigned char>(s[0])) ? "_" + s : s;
}

std::string quoted(std::string_view text) {
  std::string s = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return s + '"';
}

}  // namespace

Builder::Builder() : blocks_(1) {}

// --- the function ---------------------------------------------------------------------------------------------------

Value Builder::parameter(const Type& type, std::string_view attributes) {
  const Value v = fresh(type);
  if (num_parameters_++ > 0) parameters_ += ", ";
  parameters_ += text::concat({text::names({v}), ": ", type.str()});
  if (!attributes.empty()) parameters_ += text::concat({" {", attributes, "}"});
  if (attributes.empty() && type.rank() > 0) loops_[v.id].reads = static_cast<size_t>(size_of(type.dtype));
  return v;
}

void Builder::set_location(std::string_view name, std::string_view place) {
  location_.clear();
  if (name.empty()) return;
  const size_t colon = place.rfind(':');
  location_ = " loc(" + quoted(name);
  if (colon != place.npos) {
    location_ += text::concat({"(", quoted(place.substr(0, colon)), ":", place.substr(colon + 1), ":0)"});
  }
  location_ += ")";
}

std::string Builder::finish(std::string_view module_name, const Values& results) {
  require(blocks_.size() == 1, "finish", results, "inside a region");
  require_values("return", results);
  const std::string types = text::types(results);
  return text::concat({"module @", symbol(module_name), " {\n  func.func public @main(", parameters_, ") -> (", types,
                       ") {\n", blocks_[0].constants, spliced_ ? without_unused_joins(results) : blocks_[0].body,
                       "    return ", text::names(results), results.empty() ? "" : " : ", types, "\n  }\n}\n"});
}

std::string Builder::without_unused_joins(const Values& results) const {
  const std::string& body = blocks_[0].body;
  std::map<int, size_t> named;  // how often the text names each join, where it is made included
  const auto note = [&](int id) {
    if (joins_.contains(id)) ++named[id];
  };
  for (size_t at = body.find('%'); at != body.npos; at = body.find('%', at + 1)) {
    int id = -1;
    std::from_chars(body.data() + at + 1, body.data() + body.size(), id);
    note(id);
  }
  for (const Value& result : results) note(result.id);
  std::vector<const Joined*> unused;  // last first
  for (auto join = joins_.rbegin(); join != joins_.rend(); ++join) {
    if (named[join->first] > 1) continue;
    unused.push_back(&join->second);
    for (const Value& part : join->second.parts) {
      if (joins_.contains(part.id)) --named[part.id];
    }
  }
  std::string text;
  size_t from = 0;
  for (auto join = unused.rbegin(); join != unused.rend(); ++join) {
    text.append(body, from, (*join)->begin - from);
    from = (*join)->end;
  }
  return text.append(body, from);
}

Value Builder::fresh(const Type& type) { return {next_id_++, &types_.emplace_back(type)}; }

Value Builder::line(const Type& result, std::string_view text) {
  const Value v = fresh(result);
  blocks_.back().body += text::concat({indent(), text::names({v}), " = ", text, location_, "\n"});
  ++ops_;
  return v;
}

Value Builder::uniform(std::string_view op, const Values& operands, std::string_view details) {
  require_values(op, operands);
  const Type type = *operands[0].type;
  return line(type, text::concat({op, " ", text::names(operands), details, " : ", type.str()}));
}

Value Builder::call(std::string_view op, const Values& operands, std::string_view details, const Type& result) {
  require_values(op, operands);
  const std::string signature = text::signature(operands, {result});
  return line(result, text::concat({op, " ", text::names(operands), details, " : ", signature}));
}

Values Builder::generic(std::string_view op, const Values& operands, std::string_view attributes,
                        const std::vector<Written>& regions, const std::vector<Type>& results) {
  require_values(op, operands);
  Values values;
  for (const Type& type : results) values.push_back(fresh(type));
  std::string line = indent();
  if (!values.empty()) line += text::names(values) + " = ";
  line += text::concat({"\"", op, "\"(", text::names(operands), ")"});
  for (size_t i = 0; i < regions.size(); ++i) line += (i == 0 ? " (" : ", ") + regions[i].text;
  if (!regions.empty()) line += ")";
  if (!attributes.empty()) line += text::concat({" {", attributes, "}"});
  blocks_.back().body += text::concat({line, " : ", text::signature(operands, results), location_, "\n"});
  ++ops_;
  return values;
}

Builder::Written Builder::write(const Region& region) {
  blocks_.emplace_back();
  Values arguments;
  std::string header;
  for (const Type& type : region.arguments) {
    arguments.push_back(fresh(type));
    header += text::concat({header.empty() ? "" : ", ", text::names({arguments.back()}), ": ", type.str()});
  }
  if (!header.empty()) header = text::concat({indent().substr(2), "^bb0(", header, "):\n"});
  const Values returned = region.body(arguments);
  require_values("stablehlo.return", returned);
  std::string text =
      text::concat({"{\n", header, blocks_.back().constants, blocks_.back().body, indent(), "stablehlo.return ",
                    text::names(returned), returned.empty() ? "" : " : ", text::types(returned), "\n"});
  blocks_.pop_back();
  return {text + indent() + "}", types_of(returned)};
}

// --- constants ------------------------------------------------------------------------------------------------------

Value Builder::constant(const Type& type, std::string_view elements) {
  const std::string text = text::concat({"stablehlo.constant dense<", elements, "> : ", type.str()});
  Value& known = blocks_.back().known[text];
  if (!known) {
    known = fresh(type);
    blocks_.back().constants += text::concat({indent(), text::names({known}), " = ", text, "\n"});
    ++ops_;
  }
  return known;
}

Value Builder::scalar(double v, DType dtype) { return constant({dtype, {}}, text::literal(v, dtype)); }

Value Builder::scalar_int(int64_t v, DType dtype) { return constant({dtype, {}}, text::literal(v, dtype)); }

Value Builder::scalar_complex(std::complex<double> v, DType dtype) {
  require(is_complex(dtype), "constant", {}, "a complex value of a type that is not");
  const std::string re = text::literal(v.real(), real_of(dtype)), im = text::literal(v.imag(), real_of(dtype));
  return constant({dtype, {}}, text::concat({"(", re, ", ", im, ")"}));
}

Value Builder::full(double v, DType dtype, const Dims& dims) { return broadcast_to(scalar(v, dtype), dims); }

Value Builder::array(std::span<const int64_t> v, DType dtype) {
  std::string elements;
  for (int64_t x : v) elements += (elements.empty() ? "" : ", ") + text::literal(x, dtype);
  if (!v.empty()) elements = "[" + elements + "]";
  return constant({dtype, {static_cast<int64_t>(v.size())}}, elements);
}

Value Builder::array(std::span<const double> v, DType dtype) {
  std::string elements;
  for (double x : v) elements += (elements.empty() ? "" : ", ") + text::literal(x, dtype);
  if (!v.empty()) elements = "[" + elements + "]";
  return constant({dtype, {static_cast<int64_t>(v.size())}}, elements);
}

namespace {

double largest_finite(DType dtype) {  // of the types without infinity
  switch (dtype) {
    case DType::kF8E4M3FN: return 448;
    case DType::kF8E4M3FNUZ: return 240;
    case DType::kF8E5M2FNUZ: return 57344;
    default: return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

Value Builder::lowest(DType dtype) {
  require(!is_complex(dtype), "lowest", {}, "complex numbers have no order");
  if (is_float(dtype)) return scalar(-largest_finite(dtype), dtype);
  if (dtype == DType::kBool || is_unsigned(dtype)) return scalar_int(0, dtype);
  return scalar_int(std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(dtype)), dtype);
}

Value Builder::highest(DType dtype) {
  require(!is_complex(dtype), "highest", {}, "complex numbers have no order");
  if (is_float(dtype)) return scalar(largest_finite(dtype), dtype);
  if (dtype == DType::kBool || is_unsigned(dtype)) return scalar_int(-1, dtype);
  return scalar_int(std::numeric_limits<int64_t>::max() >> (64 - 8 * size_of(dtype)), dtype);
}

}  // namespace tpu::hlo
