// Collectives of a process group, as calls of its functions by programs that run in this process (distributed/). Their
// schemas are not PyTorch's but tpu_dist's. `group` is the group's number in this process, `size` how many ranks it
// has.
#include "ops/families.h"

namespace tpu::ops {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string integers(const Dims& values) {
  std::string text;
  for (const int64_t v : values) text += (text.empty() ? ": " : ", ") + std::to_string(v);
  return "array<i64" + text + ">";
}

Value ask(Builder& b, const char* function, int64_t group, const std::string& more, Value x, const Type& result,
          bool in_place = false) {
  const std::string attributes = "group = " + std::to_string(group) + " : i64" + (more.empty() ? "" : ", " + more);
  return b.host_call(function, attributes, {x}, {result}, in_place)[0];
}

// What Gloo can reduce stands for what it cannot.
DType wire(DType dtype) {
  switch (dtype) {
    case DType::kBool: return DType::kU8;
    case DType::kS16:
    case DType::kU16: return DType::kS32;
    case DType::kU32: return DType::kS64;
    default: return dtype;
  }
}

std::string operation(const std::string& op, DType dtype) {
  if (op == "avg") return "sum";
  if (dtype != DType::kBool) return op;
  if (op == "sum" || op == "bor") return "max";
  return op == "product" || op == "band" ? "min" : op;
}

Value reduced(Builder& b, const char* function, Value x, const std::string& op, int64_t group, int64_t size,
              const Dims& result, const std::string& more = "") {
  const DType travels = wire(x.dtype());
  Value sum = ask(b, function, group, "op = " + quoted(operation(op, x.dtype())) + (more.empty() ? "" : ", " + more),
                  b.convert(x, travels), {travels, result}, result == x.dims());
  if (op == "avg") sum = b.div(sum, b.scalar_int(size, travels));
  return b.convert(sum, x.dtype());
}

// Attributes of a reduction: operand, op.
Status refuse_reduction(const Call& call) {
  const DType dtype = call.operands[0]->dtype;
  const auto& op = std::get<std::string>(call.attributes[1]);
  const bool bits = op == "band" || op == "bor" || op == "bxor";
  const auto refused = [&](const char* why) { return invalid("tpu_dist: cannot use ReduceOp." + op + why); };
  if (is_complex(dtype)) return refused(" with complex tensors; reduce torch.view_as_real() of them");
  if (is_float(dtype) && bits) return refused(" with floating point tensors");
  if (is_float(dtype) && size_of(dtype) == 1) return refused(" with float8 tensors");
  if (dtype == DType::kU64 && (op == "min" || op == "max" || op == "avg")) return refused(" with uint64 tensors");
  if (dtype == DType::kBool && op == "avg") return refused(" with bool tensors");
  return {};
}

int64_t number(const Call& call, size_t at) { return std::get<int64_t>(call.attributes[at]); }

Type with_leading(int64_t size, const Type& type) {
  Dims dims = type.dims;
  dims.insert(dims.begin(), size);
  return {type.dtype, dims};
}
Type without_leading(const Type& type) { return {type.dtype, Dims(type.dims.begin() + 1, type.dims.end())}; }

}  // namespace

void add_collective(Table& ops) {
  ops.add("tpu_dist::all_reduce", plain,
          [](Builder& b, Value x, const std::string& op, int64_t group, int64_t size) {
            return reduced(b, "all_reduce", x, op, group, size, x.dims());
          })
      .results(like<0>)
      .refuses(refuse_reduction)
      .acts();
  ops.add("tpu_dist::reduce", plain,
          [](Builder& b, Value x, const std::string& op, int64_t root, int64_t group, int64_t size) {
            return reduced(b, "reduce", x, op, group, size, x.dims(), "root = " + std::to_string(root) + " : i64");
          })
      .results(like<0>)
      .refuses(refuse_reduction)
      .acts();
  // [size, ...] -> [...], one row for each rank.
  ops.add("tpu_dist::reduce_scatter", plain,
          [](Builder& b, Value x, const std::string& op, int64_t group, int64_t size) {
            return reduced(b, "reduce_scatter", x, op, group, size, without_leading(*x.type).dims);
          })
      .results([](const Call& call) { return std::vector{without_leading(*call.operands[0])}; })
      .refuses(refuse_reduction)
      .acts();
  ops.add("tpu_dist::broadcast", plain,
          [](Builder& b, Value x, int64_t root, int64_t group) {
            return ask(b, "broadcast", group, "root = " + std::to_string(root) + " : i64", x, *x.type, true);
          })
      .results(like<0>)
      .acts();
  // [...] -> [size, ...]
  ops.add("tpu_dist::all_gather", plain,
          [](Builder& b, Value x, int64_t group, int64_t size) {
            return ask(b, "all_gather", group, "", x, with_leading(size, *x.type));
          })
      .results([](const Call& call) { return std::vector{with_leading(number(call, 2), *call.operands[0])}; })
      .acts();
  // [...] -> [size, ...] on the root, `rows` being 0 elsewhere.
  ops.add("tpu_dist::gather", plain,
          [](Builder& b, Value x, int64_t root, int64_t rows, int64_t group) {
            return ask(b, "gather", group, "root = " + std::to_string(root) + " : i64", x, with_leading(rows, *x.type));
          })
      .results([](const Call& call) { return std::vector{with_leading(number(call, 2), *call.operands[0])}; })
      .acts();
  // [size, ...] on the root, [0, ...] elsewhere -> [...]
  ops.add("tpu_dist::scatter", plain,
          [](Builder& b, Value x, int64_t root, int64_t group) {
            return ask(b, "scatter", group, "root = " + std::to_string(root) + " : i64", x, without_leading(*x.type));
          })
      .results([](const Call& call) { return std::vector{without_leading(*call.operands[0])}; })
      .acts();
  // [rows sent, ...] -> [rows received, ...]; rows by rank.
  ops.add("tpu_dist::all_to_all", plain,
          [](Builder& b, const Call& call, Value x, const Dims& received, const Dims& sent, int64_t group) {
            return ask(b, "all_to_all", group, "received = " + integers(received) + ", sent = " + integers(sent), x,
                       *call.results[0]);
          })
      .results([](const Call& call) {
        Type type = *call.operands[0];
        type.dims[0] = 0;
        for (const int64_t rows : std::get<Dims>(call.attributes[1])) type.dims[0] += rows;
        return std::vector{type};
      })
      .acts();
}

}  // namespace tpu::ops
