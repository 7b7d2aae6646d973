#include "pjrt/host_call.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "pjrt/c_api.h"
#include "pjrt/ffi.h"

namespace tpu::pjrt {
namespace {

// Never destroyed: threads of a plugin may call while the process ends.
struct Functions {
  std::mutex mutex;
  std::map<std::string, HostFunction, std::less<>> by_name;
  std::set<const Plugin*> enabled;
};
Functions& functions() {
  static auto* const functions = new Functions;
  return *functions;
}

// A plugin takes handlers of its own minor version, forgets others without a word, and need not say which that is: it
// is offered one of each.
constexpr int kNewestMinor = 9;
thread_local int offered_minor = 0;

// Of an ffi::Attributes.
template <typename T>
const T* find_attribute(const void* all, std::string_view name, int type) {
  const auto& attributes = *static_cast<const ffi::Attributes*>(all);
  for (int64_t i = 0; i < attributes.size; ++i) {
    const ffi::Bytes& found = *attributes.names[i];
    if (std::string_view(found.data, found.size) == name) {
      return attributes.types[i] == type ? static_cast<const T*>(attributes.values[i]) : nullptr;
    }
  }
  return nullptr;
}

// By xla.PrimitiveType.
std::optional<DType> dtype_of(int type) {
  switch (type) {
    case 1: return DType::kBool;
    case 2: return DType::kS8;
    case 3: return DType::kS16;
    case 4: return DType::kS32;
    case 5: return DType::kS64;
    case 6: return DType::kU8;
    case 7: return DType::kU16;
    case 8: return DType::kU32;
    case 9: return DType::kU64;
    case 10: return DType::kF16;
    case 11: return DType::kF32;
    case 12: return DType::kF64;
    case 15: return DType::kC64;
    case 16: return DType::kBF16;
    case 18: return DType::kC128;
    default: return std::nullopt;
  }
}

bool read(const ffi::Buffers& buffers, std::vector<HostArray>& arrays) {
  for (int64_t i = 0; i < buffers.size; ++i) {
    if (buffers.types[i] != ffi::kBuffer) return false;
    const auto& buffer = *static_cast<const ffi::Buffer*>(buffers.buffers[i]);
    const auto dtype = dtype_of(buffer.dtype);
    if (!dtype) return false;
    arrays.push_back({*dtype, buffer.data, {buffer.dims, static_cast<size_t>(buffer.rank)}});
  }
  return true;
}

Status run(const ffi::CallFrame& frame) {
  std::vector<HostArray> operands, results;
  if (!read(frame.arguments, operands) || !read(frame.results, results))
    return internal("an operand is no array of a known dtype");
  const HostCall call(operands, results, &frame.attributes);
  const std::string_view name = call.text("function");
  HostFunction function = nullptr;
  {
    const std::lock_guard lock(functions().mutex);
    const auto found = functions().by_name.find(name);
    if (found != functions().by_name.end()) function = found->second;
  }
  if (function == nullptr) return internal("no host function '" + std::string(name) + "' in this process");
  return function(call);
}

// Nothing may be thrown into the plugin.
ffi::Error* handle(ffi::CallFrame* frame) noexcept {
  if (frame->extensions != nullptr && frame->extensions->type == ffi::kMetadataExtension) {
    ffi::Metadata& metadata = *reinterpret_cast<ffi::MetadataExtension*>(frame->extensions)->metadata;
    metadata.version.major = 0;
    metadata.version.minor = offered_minor;
    metadata.traits = 0;
    return nullptr;
  }
  std::string message;
  try {
    const Status status = run(*frame);
    if (status.ok()) return nullptr;
    message = status.message();
  } catch (const std::exception& e) {
    message = e.what();
  }
  constexpr int kInternal = 13;
  ffi::ErrorArgs args = {sizeof(ffi::ErrorArgs), nullptr, message.c_str(), kInternal};
  return frame->api->create_error(&args);
}

}  // namespace

int64_t HostCall::integer(std::string_view name) const {
  const auto* found = find_attribute<ffi::Scalar>(attributes_, name, ffi::kScalar);
  return found != nullptr && found->dtype == ffi::kS64 ? *static_cast<const int64_t*>(found->value) : 0;
}

std::string_view HostCall::text(std::string_view name) const {
  const auto* found = find_attribute<ffi::Bytes>(attributes_, name, ffi::kString);
  return found != nullptr ? std::string_view(found->data, found->size) : std::string_view();
}

std::span<const int64_t> HostCall::integers(std::string_view name) const {
  const auto* found = find_attribute<ffi::Array>(attributes_, name, ffi::kArray);
  if (found == nullptr || found->dtype != ffi::kS64) return {};
  return {static_cast<const int64_t*>(found->data), found->size};
}

void add_host_function(const std::string& name, HostFunction function) {
  const std::lock_guard lock(functions().mutex);
  functions().by_name[name] = function;
}

Status enable_host_calls(const Plugin& plugin, std::string_view target) {
  const std::lock_guard lock(functions().mutex);
  if (functions().enabled.contains(&plugin)) return {};
  const auto* const api =
      reinterpret_cast<const ffi::PjrtExtension*>(find_extension(plugin.api(), PJRT_Extension_Type_FFI));
  if (api == nullptr || api->base.struct_size < sizeof(ffi::PjrtExtension) || api->register_handler == nullptr) {
    return {Code::kUnimplemented, "the PJRT plugin " + plugin.path() + " takes no functions for its programs to call"};
  }
  constexpr std::string_view kPlatform = "Host";
  for (offered_minor = 0; offered_minor <= kNewestMinor; ++offered_minor) {
    ffi::RegisterArgs args = {sizeof(ffi::RegisterArgs),        target.data(),    target.size(),
                              reinterpret_cast<void*>(&handle), kPlatform.data(), kPlatform.size()};
    TPU_RETURN_IF_ERROR(to_status(plugin.api(), api->register_handler(&args)).within("XLA FFI of " + plugin.path()));
  }
  functions().enabled.insert(&plugin);
  return {};
}

}  // namespace tpu::pjrt
