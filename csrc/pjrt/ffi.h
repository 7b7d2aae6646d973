// XLA's FFI as far as this folder needs it: the leading fields of its C structs, as openxla's xla/ffi/api/c_api.h lays
// them out since XLA_FFI 0.0. No package that the build needs ships that header.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstdint>

namespace tpu::pjrt::ffi {

struct Extension {
  size_t struct_size;
  int type;  // 1: asks for Metadata
  Extension* next;
};
constexpr int kMetadataExtension = 1;

struct Version {
  size_t struct_size;
  Extension* extensions;
  int major, minor;
};

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;  // the plugin's
struct ErrorArgs {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  int code;  // absl::StatusCode
};
struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArgs*);
};

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  int dtype;  // an xla.PrimitiveType
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct Buffers {  // arguments, results
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;  // 1: Buffer
  void** buffers;
};
constexpr int kBuffer = 1;

struct Bytes {
  const char* data;
  size_t size;
};
struct Scalar {
  int dtype;  // as Buffer::dtype
  void* value;
};
struct Array {
  int dtype;  // as Buffer::dtype
  size_t size;
  void* data;
};
struct Attributes {  // sorted by name
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  Bytes** names;
  void** values;
};
constexpr int kArray = 1, kScalar = 3, kString = 4;
constexpr int kS64 = 5;  // xla.PrimitiveType

constexpr int kExecute = 3;  // stages before it only prepare; older versions number it 2
struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};
using Handler = Error* (*)(CallFrame*);

// The PJRT extension through which handlers are registered (openxla's pjrt_c_api_ffi_extension.h).
struct RegisterArgs {
  size_t struct_size;
  const char* target;
  size_t target_size;
  void* handler;
  const char* platform;
  size_t platform_size;
  int traits;
};
struct PjrtExtension {
  PJRT_Extension_Base base;
  void* register_type;
  void* add_user_data;
  PJRT_Error* (*register_handler)(RegisterArgs*);
};

}  // namespace tpu::pjrt::ffi
