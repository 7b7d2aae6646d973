// TorchTPU 0.2.0 on a CPU: a plugin that is the one named by BENCH_PLUGIN, but for how a client is created. TorchTPU
// gives options that only a TPU's plugin knows; a CPU's wants the number of its devices.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "pjrt_c_api.h"

namespace {

PJRT_Client_Create* create_client = nullptr;

PJRT_Error* create_cpu_client(PJRT_Client_Create_Args* arguments) {
  constexpr std::string_view kName = "cpu_device_count";
  PJRT_NamedValue devices{};
  devices.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  devices.name = kName.data();
  devices.name_size = kName.size();
  devices.type = PJRT_NamedValue_kInt64;
  devices.int64_value = 1;
  devices.value_size = 1;
  // In place, as the caller's struct may be longer than this header's.
  const auto* const options = std::exchange(arguments->create_options, &devices);
  const size_t count = std::exchange(arguments->num_options, 1);
  PJRT_Error* const error = create_client(arguments);
  arguments->create_options = options;
  arguments->num_options = count;
  return error;
}

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "torchtpu_plugin: %s\n", why);
  std::exit(2);
}

const PJRT_Api* changed() {
  const char* path = std::getenv("BENCH_PLUGIN");
  if (path == nullptr) die("BENCH_PLUGIN must name a PJRT plugin for the CPU");
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) die(dlerror());
  const auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) die(dlerror());
  // The plugin may be newer than this header, and its table longer: all of it is kept.
  const PJRT_Api* const real = get();
  static auto* const bytes = new std::vector<char>(real->struct_size);
  std::memcpy(bytes->data(), real, real->struct_size);
  auto* const api = reinterpret_cast<PJRT_Api*>(bytes->data());
  create_client = api->PJRT_Client_Create;
  api->PJRT_Client_Create = create_cpu_client;
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* const api = changed();
  return api;
}
