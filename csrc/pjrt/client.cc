#include "pjrt/c_api.h"
#include "pjrt/named_value.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {
namespace {

Result<DeviceInfo> describe(const PJRT_Api* api, PJRT_Device* device) {
  PJRT_Device_GetDescription_Args get = {
      .struct_size = PJRT_Device_GetDescription_Args_STRUCT_SIZE,
      .device = device,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Device_GetDescription>(api, get));
  return pjrt::describe(api, get.device_description);
}

constexpr PJRT_HostBufferSemantics semantics(HostBuffer mode) {
  switch (mode) {
    case HostBuffer::kCopyNow: return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostBuffer::kUntilDone: return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostBuffer::kZeroCopy: return PJRT_HostBufferSemantics_kImmutableZeroCopy;
  }
  return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::create(const Plugin& plugin, const Options& options) {
  const PJRT_Api* const api = plugin.api();
  const std::vector<PJRT_NamedValue> values = named_values(options);
  PJRT_Client_Create_Args create = {
      .struct_size = PJRT_Client_Create_Args_STRUCT_SIZE,
      .create_options = values.data(),
      .num_options = values.size(),
  };
  std::unique_ptr<Client> self(new Client(plugin));
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Client_Create>(api, create));
  self->client_ = create.client;

  PJRT_Client_PlatformName_Args name = {
      .struct_size = PJRT_Client_PlatformName_Args_STRUCT_SIZE,
      .client = create.client,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Client_PlatformName>(api, name));
  self->platform_name_.assign(name.platform_name, name.platform_name_size);

  PJRT_Client_PlatformVersion_Args version = {
      .struct_size = PJRT_Client_PlatformVersion_Args_STRUCT_SIZE,
      .client = create.client,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Client_PlatformVersion>(api, version));
  self->platform_version_.assign(version.platform_version, version.platform_version_size);

  PJRT_Client_AddressableDevices_Args devices = {
      .struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE,
      .client = create.client,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Client_AddressableDevices>(api, devices));
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    PJRT_Device* const device = devices.addressable_devices[i];
    TPU_ASSIGN(DeviceInfo info, describe(api, device));
    self->devices_.push_back(device);
    self->device_infos_.push_back(std::move(info));
  }
  return self;
}

Result<int64_t> Client::memory_limit(int device) const {
  PJRT_Device_MemoryStats_Args args = {
      .struct_size = PJRT_Device_MemoryStats_Args_STRUCT_SIZE,
      .device = devices_.at(static_cast<size_t>(device)),
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Device_MemoryStats>(plugin_.api(), args));
  return args.bytes_limit_is_set ? args.bytes_limit : 0;
}

Client::~Client() {
  if (client_ == nullptr) return;
  PJRT_Client_Destroy_Args args = {.struct_size = PJRT_Client_Destroy_Args_STRUCT_SIZE, .client = client_};
  discard(plugin_.api(), plugin_.api()->PJRT_Client_Destroy(&args));
}

Result<std::unique_ptr<Executable>> Client::compile(std::string_view mlir, std::string_view options) const {
  const PJRT_Program program = mlir_program(mlir);
  PJRT_Client_Compile_Args args = {
      .struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE,
      .client = client_,
      .program = &program,
      .compile_options = options.data(),
      .compile_options_size = options.size(),
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Client_Compile>(plugin_.api(), args));
  return Executable::adopt(plugin_.api(), args.executable);
}

Result<std::unique_ptr<Executable>> Client::load(std::string_view bytes) const {
  PJRT_Executable_DeserializeAndLoad_Args args = {
      .struct_size = PJRT_Executable_DeserializeAndLoad_Args_STRUCT_SIZE,
      .client = client_,
      .serialized_executable = bytes.data(),
      .serialized_executable_size = bytes.size(),
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Executable_DeserializeAndLoad>(plugin_.api(), args));
  return Executable::adopt(plugin_.api(), args.loaded_executable);
}

Result<Buffer> Client::upload(const void* host, DType dtype, std::span<const int64_t> dims, int device, HostBuffer mode,
                              std::function<void()> done) const {
  const PJRT_Api* const api = plugin_.api();
  Status status;
  Buffer buffer;
  Event released;  // the plugin has let go of `host`
  if (device < 0 || static_cast<size_t>(device) >= devices_.size()) {
    status = invalid("no device " + std::to_string(device) + ": this client has " + std::to_string(devices_.size()));
  } else {
    PJRT_Client_BufferFromHostBuffer_Args args = {
        .struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE,
        .client = client_,
        .data = host,
        .type = buffer_type(dtype),
        .dims = dims.data(),
        .num_dims = dims.size(),
        .host_buffer_semantics = semantics(mode),
        .device = devices_[static_cast<size_t>(device)],
    };
    status = call<&PJRT_Api::PJRT_Client_BufferFromHostBuffer>(api, args);
    buffer = Buffer(api, args.buffer);
    released = Event(api, args.done_with_host_buffer);
  }
  if (done != nullptr) {
    if (!status.ok() || mode == HostBuffer::kCopyNow) {
      done();  // nobody reads `host` any more
    } else if (Status s = released.on_ready([done](const Status&) { done(); }); !s.ok()) {
      buffer = {};  // the event cannot call, so wait here, for which a zero-copy buffer must be gone
      static_cast<void>(released.await());
      done();
      status = std::move(s);
    }
  }
  if (!status.ok()) return status;
  return buffer;
}

}  // namespace tpu::pjrt
