#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "pjrt/c_api.h"
#include "pjrt/named_value.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {
namespace {

constexpr int kMajor = 0;
constexpr int kOldestMinor = 81;

Result<const PJRT_Api*> find_api(void* library) {
  const auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) return invalid("not a PJRT plugin: it exports no GetPjrtApi");
  const PJRT_Api* api = get();
  if (api == nullptr) return internal("its GetPjrtApi() returned null");
  // The version is read first: it lies at the same place in every version of major 0, the rest of the table may not.
  const PJRT_Api_Version& found = api->pjrt_api_version;
  if (found.major_version != kMajor || found.minor_version < kOldestMinor) {
    return Status(Code::kUnimplemented, "it has PJRT API " + std::to_string(found.major_version) + "." +
                                            std::to_string(found.minor_version) + ", wanted is " +
                                            std::to_string(kMajor) + "." + std::to_string(kOldestMinor) +
                                            " or newer with the same major version");
  }
  // Without these no error of the plugin could be read or freed.
  if (!provides<&PJRT_Api::PJRT_Error_Destroy>(api)) return absent("PJRT_Error_Destroy");
  if (!provides<&PJRT_Api::PJRT_Error_Message>(api)) return absent("PJRT_Error_Message");
  if (!provides<&PJRT_Api::PJRT_Error_GetCode>(api)) return absent("PJRT_Error_GetCode");
  return api;
}

Status initialize(const PJRT_Api* api) {
  PJRT_Plugin_Initialize_Args args = {.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE};
  return call<&PJRT_Api::PJRT_Plugin_Initialize>(api, args);
}

}  // namespace

Result<const Plugin*> Plugin::load(const std::string& path) {
  // Keyed by the loader's handle, which is one per file however the path is spelled. Never destroyed: buffers and
  // executables held by statics may outlive any destructor that would run at exit.
  static std::mutex mutex;
  static auto& loaded = *new std::unordered_map<void*, std::unique_ptr<const Plugin>>;

  const std::lock_guard lock(mutex);
  const std::string where = "PJRT plugin " + path;
  // Local, so that several plugins, each with an LLVM of its own, do not see each other's symbols.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return Status(Code::kNotFound, where + ": cannot be loaded: " + (reason != nullptr ? reason : "unknown reason"));
  }
  if (const auto known = loaded.find(library); known != loaded.end()) return known->second.get();

  Result<const PJRT_Api*> api = find_api(library);
  if (!api.ok()) {
    dlclose(library);  // none of its code has run beyond its static constructors
    return api.status().within(where);
  }
  auto plugin = std::make_unique<Plugin>();
  plugin->api_ = *api;
  plugin->path_ = path;
  plugin->version_ = {(*api)->pjrt_api_version.major_version, (*api)->pjrt_api_version.minor_version};
  TPU_RETURN_IF_ERROR(initialize(*api).within(where));

  PJRT_Plugin_Attributes_Args args = {.struct_size = PJRT_Plugin_Attributes_Args_STRUCT_SIZE};
  if (call<&PJRT_Api::PJRT_Plugin_Attributes>(*api, args).ok()) {  // informative only
    plugin->attributes_ = text_of({args.attributes, args.num_attributes});
  }
  return (loaded[library] = std::move(plugin)).get();
}

}  // namespace tpu::pjrt
