// What PyTorch refuses in kernels, so that no meta function says it. Attribute 1 is the dimension, or the dimensions,
// of operand 0.
#pragma once

#include "ops/row.h"

namespace tpu::ops {

inline std::string name_of(const Call& call) { return std::string(call.name.substr(0, call.name.find('.'))); }

// As PyTorch prints sizes.
inline std::string shape(const Dims& dims) {
  std::string text = "[";
  for (const int64_t d : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

inline Status dim_exists(const Call& call, size_t attribute = 1) {
  const auto* dim = std::get_if<int64_t>(&call.attributes[attribute]);
  if (dim == nullptr) return {};
  const int64_t rank = std::max<int64_t>(call.operands[0]->rank(), 1);
  if (-rank <= *dim && *dim < rank) return {};
  return {Code::kOutOfRange, "Dimension out of range (expected to be in range of [" + std::to_string(-rank) + ", " +
                                 std::to_string(rank - 1) + "], but got " + std::to_string(*dim) + ")"};
}

inline Status is_ordered(const Call& call) {
  if (!is_complex(call.operands[0]->dtype)) return {};
  return {Code::kUnimplemented, "\"" + name_of(call) + "\" not implemented for complex dtypes"};
}

inline Status is_not_bool(const Call& call) {
  if (call.operands[0]->dtype != DType::kBool) return {};
  return invalid(name_of(call) + "(): does not support bool input");
}

inline Status is_inexact(const Call& call) {
  const DType dtype = call.operands[0]->dtype;
  if (is_float(dtype) || is_complex(dtype)) return {};
  return {Code::kUnimplemented, "\"" + name_of(call) + "\" not implemented for integers"};
}

// A dtype as PyTorch's kernels call it.
inline std::string kernel_name(DType dtype) {
  switch (dtype) {
    case DType::kF16: return "Half";
    case DType::kBF16: return "BFloat16";
    case DType::kF32: return "Float";
    case DType::kF64: return "Double";
    case DType::kC64: return "ComplexFloat";
    case DType::kC128: return "ComplexDouble";
    case DType::kBool: return "Bool";
    case DType::kU8: return "Byte";
    case DType::kS8: return "Char";
    case DType::kS16: return "Short";
    case DType::kS32: return "Int";
    case DType::kS64: return "Long";
    default: return std::string(mlir_name(dtype));
  }
}

inline Status not_implemented(const std::string& kernel, DType dtype) {
  return {Code::kUnimplemented, "\"" + kernel + "\" not implemented for '" + kernel_name(dtype) + "'"};
}

// `kernel`: PyTorch's kernel, where it is not called as the operator.
inline Status are_whole(const Call& call, std::string_view kernel) {
  for (const hlo::Type* operand : call.operands) {
    if (!is_float(operand->dtype) && !is_complex(operand->dtype)) continue;
    return not_implemented(std::string(kernel) + "_tpu", operand->dtype);
  }
  return {};
}
inline Status are_whole(const Call& call) { return are_whole(call, name_of(call)); }

// Of the last operand, which a distribution is about. `kernel`: as above.
inline Status is_real(const Call& call, const char* kernel) {
  const DType dtype = call.operands.back()->dtype;
  return is_float(dtype) ? Status() : not_implemented(kernel, dtype);
}

// The sizes of all operands are those of one result, or 1.
inline Status broadcast_together(const Call& call) {
  Dims all;
  for (const hlo::Type* operand : call.operands) {
    const auto size = [](const Dims& dims, size_t from_right) {
      return from_right < dims.size() ? dims[dims.size() - 1 - from_right] : 1;
    };
    Dims next(std::max(all.size(), operand->dims.size()));
    for (size_t i = 0; i < next.size(); ++i) {
      const int64_t a = size(all, i), b = size(operand->dims, i);
      if (a != b && a != 1 && b != 1) {
        return invalid("The size of tensor a (" + std::to_string(a) + ") must match the size of tensor b (" +
                       std::to_string(b) + ") at non-singleton dimension " + std::to_string(next.size() - 1 - i));
      }
      next[next.size() - 1 - i] = a == 1 ? b : a;
    }
    all = std::move(next);
  }
  return {};
}

// Has elements along its dimension, or any at all where none is given: an extremum of nothing is not defined.
inline Status has_elements(const Call& call, size_t attribute = 1) {
  TPU_RETURN_IF_ERROR(is_ordered(call));
  const Dims& dims = call.operands[0]->dims;
  Dims over;
  if (attribute < call.attributes.size()) {
    TPU_RETURN_IF_ERROR(dim_exists(call, attribute));
    if (const auto* one = std::get_if<int64_t>(&call.attributes[attribute])) over = {*one};
    if (const auto* many = std::get_if<Dims>(&call.attributes[attribute])) over = *many;
  }
  const auto rank = static_cast<int64_t>(dims.size());
  for (const int64_t dim : over) {
    const int64_t d = dim < 0 ? dim + rank : dim;
    if (0 <= d && d < rank && dims[static_cast<size_t>(d)] == 0) {
      return {Code::kOutOfRange,
              name_of(call) + "(): Expected reduction dim " + std::to_string(d) + " to have non-zero size."};
    }
  }
  if (!over.empty() || call.operands[0]->numel() > 0) return {};
  const bool is_index = name_of(call).starts_with("arg");
  return {is_index ? Code::kOutOfRange : Code::kInvalidArgument,
          name_of(call) + "(): Expected reduction dim to be specified for input.numel() == 0." +
              (is_index ? "" : " Specify the reduction dim with the 'dim' argument.")};
}

}  // namespace tpu::ops
