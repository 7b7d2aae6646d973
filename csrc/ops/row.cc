#include "ops/row.h"

#include <algorithm>

#include "ops/growing.h"

namespace tpu::ops {

double Number::to_double() const {
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* c = std::get_if<std::complex<double>>(&value)) return c->real();
  if (const auto* b = std::get_if<bool>(&value)) return *b ? 1 : 0;
  return static_cast<double>(std::get<int64_t>(value));
}

int64_t Number::to_int() const {
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  return static_cast<int64_t>(to_double());
}

Value Number::in(Builder& b, DType dtype) const {
  if (const auto* c = std::get_if<std::complex<double>>(&value)) return b.scalar_complex(*c, dtype);
  return tpu::is_int(dtype) ? b.scalar_int(to_int(), dtype) : b.scalar(to_double(), dtype);
}

namespace detail {

template <>
Number static_value(const hlo::Attr& attr) {
  return {attr};
}
template <>
int64_t static_value(const hlo::Attr& attr) {
  return Number{attr}.to_int();
}
template <>
double static_value(const hlo::Attr& attr) {
  return Number{attr}.to_double();
}
template <>
bool static_value(const hlo::Attr& attr) {
  return Number{attr}.to_double() != 0;
}
template <>
std::string static_value(const hlo::Attr& attr) {
  return std::get<std::string>(attr);
}
template <>
Dims static_value(const hlo::Attr& attr) {
  if (const auto* one = std::get_if<int64_t>(&attr)) return {*one};
  return std::get<Dims>(attr);
}
template <>
std::vector<double> static_value(const hlo::Attr& attr) {
  return std::get<std::vector<double>>(attr);
}
template <>
DType static_value(const hlo::Attr& attr) {
  return std::get<DType>(attr);
}

Value Unpacker::operand(bool promote) {
  Value v = operands[next_operand++];
  if (promote && trait.promotes) v = b.convert(v, call.compute);
  if (trait.broadcasts) v = b.broadcast_to(v, call.results[0]->dims);
  return v;
}

namespace {
bool absent(const hlo::Attr& attr) { return std::holds_alternative<std::monostate>(attr); }
}  // namespace

// A tensor's attribute is the number of operands it takes: absent ones have monostate, lists their length.
Value ArgOf<Value>::get(Unpacker& u) {
  u.attribute();
  return u.operand(true);
}
Raw ArgOf<Raw>::get(Unpacker& u) {
  u.attribute();
  return Raw{u.operand(false)};
}
std::optional<Value> ArgOf<std::optional<Value>>::get(Unpacker& u) {
  if (absent(u.attribute())) return std::nullopt;
  return u.operand(true);
}
std::optional<Raw> ArgOf<std::optional<Raw>>::get(Unpacker& u) {
  if (absent(u.attribute())) return std::nullopt;
  return Raw{u.operand(false)};
}
Values ArgOf<Values>::get(Unpacker& u) {
  Values out(static_cast<size_t>(static_value<int64_t>(u.attribute())));
  for (Value& v : out) v = u.operand(true);
  return out;
}
OptionalValues ArgOf<OptionalValues>::get(Unpacker& u) {
  OptionalValues out;
  for (const int64_t present : static_value<Dims>(u.attribute())) {
    out.push_back(present != 0 ? std::optional(u.operand(true)) : std::nullopt);
  }
  return out;
}

// A scalar's attribute is monostate where it comes at run time, its value where that is an identity, false where None.
Scalar ArgOf<Scalar>::get(Unpacker& u) {
  const hlo::Attr& attr = u.attribute();
  if (absent(attr)) return {u.b, u.b.convert(u.operands[u.next_operand++], u.call.compute)};
  return {u.b, static_value<double>(attr), u.call.compute};
}
std::optional<Scalar> ArgOf<std::optional<Scalar>>::get(Unpacker& u) {
  if (const auto* none = std::get_if<bool>(&u.call.attributes[u.next_attribute]); none != nullptr && !*none) {
    u.attribute();
    return std::nullopt;
  }
  return ArgOf<Scalar>::get(u);
}
// As tensors: monostate where absent.
Position ArgOf<Position>::get(Unpacker& u) {
  u.attribute();
  return Position{u.operands[u.next_operand++]};
}
std::optional<Position> ArgOf<std::optional<Position>>::get(Unpacker& u) {
  if (absent(u.attribute())) return std::nullopt;
  return Position{u.operands[u.next_operand++]};
}
Random ArgOf<Random>::get(Unpacker& u) {
  u.attribute();
  const Value seed = u.operands[u.next_operand++], offset = u.operands[u.next_operand++];
  return {seed, offset};
}
Drawn ArgOf<Drawn>::get(Unpacker& u) {
  const Value seed = u.operands[u.next_operand++], offset = u.operands[u.next_operand++];
  return {{seed, offset}};
}

}  // namespace detail

Row& Row::computes_apart() {
  grows = grows_pointwise;
  apart = quick = true;
  return *this;
}

Row& Table::insert(Row row) {
  row.draws = !row.args.empty() && row.args.back() == Arg::kDrawn;
  if (row.draws) row.args.pop_back();
  const bool random = row.draws || std::ranges::find(row.args, Arg::kRandom) != row.args.end();
  if (row.trait.broadcasts && row.trait.apart && !random) row.computes_apart();
  std::string name = row.name;
  return rows_.insert_or_assign(std::move(name), std::move(row)).first->second;
}

const Row* Table::find(const std::string& name) const {
  const auto at = rows_.find(name);
  return at == rows_.end() ? nullptr : &at->second;
}

}  // namespace tpu::ops
