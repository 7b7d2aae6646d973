#include "hlo/call.h"

#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"

namespace tpu::hlo {
namespace {

struct AttrText {
  std::string& out;

  void bits(double v) const { out += std::to_string(std::bit_cast<uint64_t>(v)); }
  void operator()(std::monostate) const { out += '_'; }
  void operator()(bool v) const { out += v ? 'T' : 'F'; }
  void operator()(int64_t v) const { out += 'i' + std::to_string(v); }
  void operator()(double v) const {
    out += 'd';
    bits(v);
  }
  void operator()(std::complex<double> v) const {
    out += 'c';
    bits(v.real());
    out += '+';
    bits(v.imag());
  }
  void operator()(const std::string& v) const { out += 's' + std::to_string(v.size()) + ':' + v; }
  void operator()(DType v) const {
    out += 't';
    out += mlir_name(v);
  }
  void operator()(const Dims& v) const {
    out += '[';
    for (int64_t d : v) out += std::to_string(d) + ' ';
    out += ']';
  }
  void operator()(const std::vector<double>& v) const {
    out += '{';
    for (double d : v) {
      bits(d);
      out += ' ';
    }
    out += '}';
  }
};

// Everything but the sizes of operands and results.
std::string structure_text(const Call& call) {
  std::string out{call.name};
  out += '(';
  for (const Attr& attr : call.attributes) {
    std::visit(AttrText{out}, attr);
    out += ',';
  }
  out += ')';
  out += mlir_name(call.compute);
  out += call.has_effect ? '!' : '.';
  if (call.precision != Precision::kHighest) out += 'p' + std::to_string(static_cast<int>(call.precision));
  const auto types = [&](const std::vector<const Type*>& list) {
    for (const Type* t : list) {
      out += mlir_name(t->dtype);
      out += std::to_string(t->rank());
      out += ' ';
    }
    out += '/';
  };
  types(call.operands);
  types(call.results);
  return out;
}

std::string dimensions_text(const Call& call) {
  std::string out;
  for (const auto* list : {&call.operands, &call.results}) {
    for (const Type* t : *list) {
      for (int64_t d : t->dims) out += std::to_string(d) + 'x';
      out += ' ';
    }
    out += '/';
  }
  return out;
}

}  // namespace

std::string canonical(const Call& call) { return structure_text(call) + '|' + dimensions_text(call); }

const Call* intern(Call call) {
  static auto* const mutex = new std::mutex;
  static auto* const table = new std::unordered_map<std::string, std::unique_ptr<const Call>>;
  const std::string structure = structure_text(call), dimensions = dimensions_text(call);
  std::string text = structure + '|' + dimensions;
  const std::lock_guard lock(*mutex);
  auto& slot = (*table)[std::move(text)];
  if (!slot) {
    call.structure_key = hash_bytes(structure);
    call.dimensions_key = hash_bytes(dimensions);
    slot = std::make_unique<const Call>(std::move(call));
  }
  return slot.get();
}

void check_emits(const Call* call, bool for_cpu) {
  static auto* const mutex = new std::mutex;
  static auto* const checked = new std::unordered_set<const Call*>;
  {
    const std::lock_guard lock(*mutex);
    if (checked->contains(call)) return;
  }
  Builder b;
  b.set_for_cpu(for_cpu);
  Values operands;
  for (const Type* type : call->operands) operands.push_back(b.parameter(*type));
  emit_checked(b, *call, operands);
  const std::lock_guard lock(*mutex);
  checked->insert(call);
}

Values emit_checked(Builder& b, const Call& call, std::span<const Value> operands) {
  b.set_precision(call.precision);
  Values values = call.emit(b, call, operands);
  if (values.size() != call.results.size()) {
    throw BuildError(std::string(call.name) + ": its lowering returns " + std::to_string(values.size()) +
                     " values, PyTorch expects " + std::to_string(call.results.size()));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& want = *call.results[i];
    if (values[i].dtype() != want.dtype) values[i] = b.convert(values[i], want.dtype);
    if (values[i].dims() != want.dims) {
      throw BuildError(std::string(call.name) + ": result " + std::to_string(i) + " of its lowering is " +
                       values[i].type->str() + ", PyTorch expects " + want.str());
    }
  }
  return values;
}

}  // namespace tpu::hlo
