// How the parts of an operation are spelled, and how a wrong form is reported: shared by the files that implement
// Builder, used by nobody else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hlo/builder.h"

namespace tpu::hlo {

[[noreturn]] void fail(std::string_view op, const Values& operands, std::string_view why);
inline void require(bool ok, std::string_view op, const Values& operands, std::string_view why) {
  if (!ok) fail(op, operands, why);
}

// Every operand is a value.
void require_values(std::string_view op, const Values& operands);

Values joined(Values a, const Values& b);
bool contains(const Dims& v, int64_t x);
std::vector<Type> types_of(const Values& v);

// "stablehlo.add"; of bools "stablehlo.or".
std::string_view reducer(Reduce how, DType dtype);

// The window with its empty lists filled in; checked.
Window complete_window(std::string_view op, const Values& operands, const Window& window);
// How often window `w` fits along dimension i of that size.
int64_t window_result(int64_t size, const Window& w, size_t i);

namespace text {

inline std::string_view boolean(bool v) { return v ? "true" : "false"; }
std::string concat(std::initializer_list<std::string_view> parts);
std::string list(const Dims& v);                                                  // [1, 2]
std::string array(const Dims& v);                                                 // array<i64: 1, 2>
std::string padding(const Dims& low, const Dims& high);                           // dense<[[0, 1]]> : tensor<1x2xi64>
std::string names(const Values& v);                                               // %1, %2
std::string types(const Values& v);                                               // tensor<f32>, tensor<i1>
std::string signature(const Values& operands, const std::vector<Type>& results);  // (A, B) -> C
// The elements of a constant.
std::string literal(double v, DType dtype);
std::string literal(int64_t v, DType dtype);

}  // namespace text
}  // namespace tpu::hlo
