// A Call is one operation with everything fixed but the values of its operands: which lowering, static attributes,
// types in and out. Calls are interned, so two nodes that do the same thing share one address; all that a program's
// key needs to know of a node is its Call and where its operands come from.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hlo/builder.h"
#include "hlo/type.h"

namespace tpu::hlo {

// A static attribute. monostate: absent, or given as an operand at run time.
using Attr = std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, DType, Dims,
                          std::vector<double>>;

struct Call;
// Writes the operation's body; returns one value per result. Types that differ from the call's results only by dtype
// are converted by the caller, other differences are a BuildError.
using Emit = Values (*)(Builder& b, const Call& call, std::span<const Value> operands);

struct Call {
  std::string_view name;  // static storage: "add.Tensor", "view.read"
  Emit emit = nullptr;
  const void* data = nullptr;  // for `emit`; a function of `name` alone
  std::vector<Attr> attributes;
  std::vector<const Type*> operands;
  std::vector<const Type*> results;
  DType compute = DType::kF32;                // dtype that a promoting lowering computes in
  Precision precision = Precision::kHighest;  // of products of float32
  bool has_effect = false;                    // kept and ordered although nobody reads its results
  bool quick = false;                         // takes little more time than reading its operands; says `name` alone

  // Set by intern().
  uint64_t structure_key = 0;   // name, attributes, dtypes, ranks
  uint64_t dimensions_key = 0;  // sizes
};

// Name, attributes and types as text that is equal in every process for equal calls, and unequal otherwise.
std::string canonical(const Call& call);

// The one Call equal to `call`; lives until the process ends. Thread-safe.
const Call* intern(Call call);

// Throws BuildError where the lowering of an interned call, for the device of this process, does not take its operands.
// Each call is looked at once.
void check_emits(const Call* call, bool for_cpu);

// Runs call.emit and brings the results to the types that the call promises.
Values emit_checked(Builder& b, const Call& call, std::span<const Value> operands);

}  // namespace tpu::hlo
