// Control flow, calls, and operations that have no method.
#include "hlo/builder_text.h"

namespace tpu::hlo {
Values Builder::while_(const Values& init, const Body& condition, const Body& body) {
  constexpr std::string_view op = "stablehlo.while";
  const std::vector<Type> types = types_of(init);
  const Written test = write({types, condition}), step = write({types, body});
  require(test.returns == std::vector<Type>{{DType::kBool, {}}}, op, init, "the condition returns no bool");
  require(step.returns == types, op, init, "the body returns other types than it takes");
  return generic(op, init, "", {test, step}, types);
}

Values Builder::if_(Value predicate, const std::function<Values()>& then, const std::function<Values()>& otherwise) {
  constexpr std::string_view op = "stablehlo.if";
  require(*predicate.type == Type{DType::kBool, {}}, op, {predicate}, "the predicate is not one bool");
  const Written yes = write({{}, [&](const Values&) { return then(); }});
  const Written no = write({{}, [&](const Values&) { return otherwise(); }});
  require(yes.returns == no.returns, op, {predicate}, "the branches return different types");
  return generic(op, {predicate}, "", {yes, no}, yes.returns);
}

Values Builder::custom_call(std::string_view target, const Values& operands, const std::vector<Type>& results,
                            std::string_view extra_attributes) {
  const std::string attributes =
      text::concat({"call_target_name = \"", target, "\"", extra_attributes.empty() ? "" : ", ", extra_attributes});
  return generic("stablehlo.custom_call", operands, attributes, {}, results);
}

Values Builder::host_call(std::string_view function, std::string_view attributes, const Values& operands,
                          std::vector<Type> results, bool in_place) {
  Values all = operands;
  all.push_back(order_ ? order_ : scalar_int(0, DType::kS32));
  results.push_back({DType::kS32, {}});
  const auto layouts = [](const auto& types) {  // row-major
    std::string text;
    for (const Type& type : types) {
      std::string order;
      for (int64_t d = type.rank(); d-- > 0;) order += (order.empty() ? "" : ", ") + std::to_string(d);
      text +=
          (text.empty() ? "" : ", ") + ("dense<[" + order) + "]> : tensor<" + std::to_string(type.rank()) + "xindex>";
    }
    return "[" + text + "]";
  };
  std::string text = "api_version = 4 : i32, has_side_effect = true, backend_config = {function = \"" +
                     std::string(function) + "\"" + (attributes.empty() ? "" : ", ") + std::string(attributes) +
                     "}, operand_layouts = " + layouts(types_of(all)) + ", result_layouts = " + layouts(results);
  if (in_place) {
    text +=
        ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, "
        "operand_tuple_indices = []>]";
  }
  Values made = custom_call(kHostCall, all, results, text);
  order_ = made.back();
  made.pop_back();
  return made;
}

Values Builder::optimization_barrier(const Values& x) {
  return generic("stablehlo.optimization_barrier", x, "", {}, types_of(x));
}

Values Builder::raw(std::string_view op, const Values& operands, std::string_view attributes,
                    const std::vector<Type>& results, const std::vector<Region>& regions) {
  std::vector<Written> written;
  for (const Region& region : regions) written.push_back(write(region));
  return generic(op, operands, attributes, written, results);
}

}  // namespace tpu::hlo
