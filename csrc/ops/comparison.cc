#include "ops/families.h"
#include "ops/float_bits.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

constexpr Trait compared{.name = "compared", .promotes = true, .widens = false};

template <hlo::Compare kHow>
void add_compare(Table& ops, const char* tensor, const char* scalar) {
  ops.add(tensor, exact, [](Builder& b, Value x, Value y) { return b.compare(kHow, x, y); });
  ops.add(scalar, exact, [](Builder& b, Value x, Scalar y) { return b.compare(kHow, x, y); });
}

// A test of floats: other types never pass it, complex numbers do if a part does.
template <typename F>
void add_test(Table& ops, const char* name, F) {
  ops.add(name, broadcasting, [](Builder& b, Raw x) -> Value {
    if (is_complex(x.dtype())) return b.or_(F{}(b, b.real(x)), F{}(b, b.imag(x)));
    return is_float(x.dtype()) ? F{}(b, x) : b.full(0, DType::kBool, x.dims());
  });
}

Value clamp(Builder& b, Value x, optional<Value> low, optional<Value> high) {
  if (low) x = b.max(x, *low);
  return high ? b.min(x, *high) : x;
}

Value is_in(Builder& b, Value x, Value set, bool invert) {
  const Value members = b.flatten(set);
  Dims dims = x.dims(), kept;
  for (int64_t d = 0; d < x.rank(); ++d) kept.push_back(d);
  dims.push_back(members.numel());
  const Value same = b.eq(b.broadcast_in_dim(x, dims, kept), b.broadcast_to(members, dims));
  const Value found = b.reduce(hlo::Reduce::kOr, same, {x.rank()});
  return invert ? b.not_(found) : found;
}

optional<Value> value_of(const optional<Scalar>& s) { return s ? optional<Value>(*s) : std::nullopt; }

}  // namespace

void add_comparison(Table& ops) {
  add_compare<hlo::Compare::kEq>(ops, "eq.Tensor", "eq.Scalar");
  add_compare<hlo::Compare::kNe>(ops, "ne.Tensor", "ne.Scalar");
  add_compare<hlo::Compare::kLt>(ops, "lt.Tensor", "lt.Scalar");
  add_compare<hlo::Compare::kLe>(ops, "le.Tensor", "le.Scalar");
  add_compare<hlo::Compare::kGt>(ops, "gt.Tensor", "gt.Scalar");
  add_compare<hlo::Compare::kGe>(ops, "ge.Tensor", "ge.Scalar");

  add_test(ops, "isnan", [](Builder& b, Value x) { return b.is_nan(x); });
  add_test(ops, "isinf", [](Builder& b, Value x) { return b.eq(b.abs(x), b.highest(x.dtype())); });
  add_test(ops, "isposinf", [](Builder& b, Value x) { return b.eq(x, b.highest(x.dtype())); });
  add_test(ops, "isneginf", [](Builder& b, Value x) { return b.eq(x, b.lowest(x.dtype())); });
  ops.add("signbit", broadcasting,
          [](Builder& b, Raw x) -> Value { return x.dtype() == DType::kBool ? b.zeros_like(x) : sign_bit(b, x); });

  ops.add("clamp", exact, [](Builder& b, Value x, optional<Scalar> low, optional<Scalar> high) {
    return clamp(b, x, value_of(low), value_of(high));
  });
  ops.add("clamp.Tensor", exact,
          [](Builder& b, Value x, optional<Value> low, optional<Value> high) { return clamp(b, x, low, high); });
  ops.add("clamp_min", exact, [](Builder& b, Value x, Scalar low) { return b.max(x, low); });
  ops.add("clamp_max", exact, [](Builder& b, Value x, Scalar high) { return b.min(x, high); });
  ops.add("clamp_min.Tensor", exact, [](Builder& b, Value x, Value low) { return b.max(x, low); });
  ops.add("clamp_max.Tensor", exact, [](Builder& b, Value x, Value high) { return b.min(x, high); });

  ops.add("isin.Tensor_Tensor", compared,
          [](Builder& b, Value x, Value set, Ignore, bool invert) { return is_in(b, x, set, invert); });
  ops.add("isin.Tensor_Scalar", compared,
          [](Builder& b, Value x, Scalar one, Ignore, bool invert) { return is_in(b, x, one, invert); });
  ops.add("isin.Scalar_Tensor", compared,
          [](Builder& b, Scalar x, Value set, Ignore, bool invert) { return is_in(b, x, set, invert); });
  ops.add("where.self", broadcasting,
          [](Builder& b, const Call& call, Raw condition, Raw x, Raw y) {
            const DType dtype = call.results[0]->dtype;
            return b.select(b.convert(condition, DType::kBool), b.convert(x, dtype), b.convert(y, dtype));
          })
      .refuses(broadcast_together);
}

}  // namespace tpu::ops
