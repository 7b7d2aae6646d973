// How this folder, and only it, calls the C API: one call path for all functions, errors owned and translated once,
// element types mapped.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/dtype.h"
#include "base/status.h"

// An argument struct names what it sets; the rest, extensions and results, is zero.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tpu::pjrt {

// For calls whose failure can be neither reported nor repaired: frees of destructors.
inline void discard(const PJRT_Api* api, PJRT_Error* error) noexcept {
  if (error == nullptr) [[likely]]
    return;
  PJRT_Error_Destroy_Args args = {.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE, .error = error};
  api->PJRT_Error_Destroy(&args);
}

inline Code code_of(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_OK: return Code::kOk;
    case PJRT_Error_Code_INVALID_ARGUMENT:
    case PJRT_Error_Code_OUT_OF_RANGE: return Code::kInvalidArgument;
    case PJRT_Error_Code_NOT_FOUND: return Code::kNotFound;
    case PJRT_Error_Code_UNIMPLEMENTED: return Code::kUnimplemented;
    case PJRT_Error_Code_RESOURCE_EXHAUSTED: return Code::kOutOfMemory;
    case PJRT_Error_Code_UNAVAILABLE:
    case PJRT_Error_Code_DEADLINE_EXCEEDED:
    case PJRT_Error_Code_CANCELLED:
    case PJRT_Error_Code_ABORTED: return Code::kUnavailable;
    default: return Code::kInternal;
  }
}

// Takes ownership of `error`, which is not null.
[[gnu::cold, gnu::noinline]] inline Status convert(const PJRT_Api* api, PJRT_Error* error) {
  PJRT_Error_GetCode_Args code = {.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE, .error = error};
  PJRT_Error* const no_code = api->PJRT_Error_GetCode(&code);
  PJRT_Error_Message_Args text = {.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE, .error = error};
  api->PJRT_Error_Message(&text);
  Code ours = no_code == nullptr ? code_of(code.code) : Code::kInternal;
  if (ours == Code::kOk) ours = Code::kInternal;  // an error object that says OK is still an error
  Status status(ours, std::string(text.message, text.message_size));
  discard(api, no_code);
  discard(api, error);
  return status;
}

inline Status to_status(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) [[likely]]
    return {};
  return convert(api, error);
}

// "PJRT_Client_Create" of &PJRT_Api::PJRT_Client_Create, as the compiler spells the template argument.
template <auto kFunction>
std::string_view name_of() {
  constexpr std::string_view kScope = "PJRT_Api::";
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find(kScope) + kScope.size());
  return text.substr(0, text.find_first_of(";],>"));
}

[[gnu::cold, gnu::noinline]] inline Status absent(std::string_view function) {
  return {Code::kUnimplemented, "the PJRT plugin does not provide " + std::string(function)};
}

// The table has grown between versions and plugins leave gaps: a field past the plugin's struct_size, or null, is
// absent.
template <auto kFunction>
bool provides(const PJRT_Api* api) {
  const auto* field = reinterpret_cast<const char*>(&(api->*kFunction));
  const size_t end = static_cast<size_t>(field - reinterpret_cast<const char*>(api)) + sizeof(api->*kFunction);
  return end <= api->struct_size && api->*kFunction != nullptr;
}

// call<&PJRT_Api::PJRT_X>(api, args): the error of PJRT_X, or that the plugin lacks it.
template <auto kFunction, typename Args>
Status call(const PJRT_Api* api, Args& args) {
  if (!provides<kFunction>(api)) [[unlikely]]
    return absent(name_of<kFunction>());
  return to_status(api, (api->*kFunction)(&args));
}

// Null where the plugin lacks it. A newer plugin has types that the enumeration here does not, so they are compared as
// numbers: to read such a value as the enumeration is undefined.
inline const PJRT_Extension_Base* find_extension(const PJRT_Api* api, PJRT_Extension_Type type) {
  using Number = std::underlying_type_t<PJRT_Extension_Type>;
  const PJRT_Extension_Base* extension = api->extension_start;
  for (; extension != nullptr; extension = extension->next) {
    Number number;
    std::memcpy(&number, &extension->type, sizeof(number));
    if (number == static_cast<Number>(type)) break;
  }
  return extension;
}

struct DeviceInfo;
Result<DeviceInfo> describe(const PJRT_Api* api, PJRT_DeviceDescription* description);

// Points into `mlir`.
inline PJRT_Program mlir_program(std::string_view mlir) {
  constexpr std::string_view kFormat = "mlir";
  return {
      .struct_size = PJRT_Program_STRUCT_SIZE,
      .code = const_cast<char*>(mlir.data()),  // an input here: the field is also an output of other calls
      .code_size = mlir.size(),
      .format = kFormat.data(),
      .format_size = kFormat.size(),
  };
}

constexpr PJRT_Buffer_Type buffer_type(DType t) {
  switch (t) {
    case DType::kBool: return PJRT_Buffer_Type_PRED;
    case DType::kS8: return PJRT_Buffer_Type_S8;
    case DType::kS16: return PJRT_Buffer_Type_S16;
    case DType::kS32: return PJRT_Buffer_Type_S32;
    case DType::kS64: return PJRT_Buffer_Type_S64;
    case DType::kU8: return PJRT_Buffer_Type_U8;
    case DType::kU16: return PJRT_Buffer_Type_U16;
    case DType::kU32: return PJRT_Buffer_Type_U32;
    case DType::kU64: return PJRT_Buffer_Type_U64;
    case DType::kF16: return PJRT_Buffer_Type_F16;
    case DType::kBF16: return PJRT_Buffer_Type_BF16;
    case DType::kF32: return PJRT_Buffer_Type_F32;
    case DType::kF64: return PJRT_Buffer_Type_F64;
    case DType::kC64: return PJRT_Buffer_Type_C64;
    case DType::kC128: return PJRT_Buffer_Type_C128;
    case DType::kF8E4M3FN: return PJRT_Buffer_Type_F8E4M3FN;
    case DType::kF8E4M3FNUZ: return PJRT_Buffer_Type_F8E4M3FNUZ;
    case DType::kF8E5M2: return PJRT_Buffer_Type_F8E5M2;
    case DType::kF8E5M2FNUZ: return PJRT_Buffer_Type_F8E5M2FNUZ;
  }
  return PJRT_Buffer_Type_INVALID;
}

}  // namespace tpu::pjrt
