#include "pjrt/c_api.h"
#include "pjrt/named_value.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {

Result<DeviceInfo> describe(const PJRT_Api* api, PJRT_DeviceDescription* description) {
  PJRT_DeviceDescription_Id_Args id = {
      .struct_size = PJRT_DeviceDescription_Id_Args_STRUCT_SIZE,
      .device_description = description,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_DeviceDescription_Id>(api, id));
  PJRT_DeviceDescription_Kind_Args kind = {
      .struct_size = PJRT_DeviceDescription_Kind_Args_STRUCT_SIZE,
      .device_description = description,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_DeviceDescription_Kind>(api, kind));
  PJRT_DeviceDescription_ToString_Args text = {
      .struct_size = PJRT_DeviceDescription_ToString_Args_STRUCT_SIZE,
      .device_description = description,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_DeviceDescription_ToString>(api, text));
  DeviceInfo info{
      .id = id.id,
      .kind = std::string(kind.device_kind, kind.device_kind_size),
      .description = std::string(text.to_string, text.to_string_size),
  };
  PJRT_DeviceDescription_Attributes_Args more = {
      .struct_size = PJRT_DeviceDescription_Attributes_Args_STRUCT_SIZE,
      .device_description = description,
  };
  if (call<&PJRT_Api::PJRT_DeviceDescription_Attributes>(api, more).ok()) {  // informative only
    info.attributes = text_of({more.attributes, more.num_attributes});
  }
  return info;
}

Result<std::unique_ptr<Topology>> Topology::create(const Plugin& plugin, const std::string& name,
                                                   const Options& options) {
  const std::vector<PJRT_NamedValue> values = named_values(options);
  PJRT_TopologyDescription_Create_Args create = {
      .struct_size = PJRT_TopologyDescription_Create_Args_STRUCT_SIZE,
      .topology_name = name.data(),
      .topology_name_size = name.size(),
      .create_options = values.data(),
      .num_options = values.size(),
  };
  TPU_RETURN_IF_ERROR(
      call<&PJRT_Api::PJRT_TopologyDescription_Create>(plugin.api(), create).within("topology " + name));
  std::unique_ptr<Topology> self(new Topology(plugin.api()));
  self->topology_ = create.topology;
  TPU_RETURN_IF_ERROR(self->describe());
  return self;
}

Topology::~Topology() {
  PJRT_TopologyDescription_Destroy_Args args = {
      .struct_size = PJRT_TopologyDescription_Destroy_Args_STRUCT_SIZE,
      .topology = topology_,
  };
  discard(api_, api_->PJRT_TopologyDescription_Destroy(&args));
}

Status Topology::describe() {
  PJRT_TopologyDescription_PlatformName_Args name = {
      .struct_size = PJRT_TopologyDescription_PlatformName_Args_STRUCT_SIZE,
      .topology = topology_,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_TopologyDescription_PlatformName>(api_, name));
  platform_name_.assign(name.platform_name, name.platform_name_size);

  PJRT_TopologyDescription_PlatformVersion_Args version = {
      .struct_size = PJRT_TopologyDescription_PlatformVersion_Args_STRUCT_SIZE,
      .topology = topology_,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_TopologyDescription_PlatformVersion>(api_, version));
  platform_version_.assign(version.platform_version, version.platform_version_size);

  PJRT_TopologyDescription_GetDeviceDescriptions_Args devices = {
      .struct_size = PJRT_TopologyDescription_GetDeviceDescriptions_Args_STRUCT_SIZE,
      .topology = topology_,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_TopologyDescription_GetDeviceDescriptions>(api_, devices));
  for (size_t i = 0; i < devices.num_descriptions; ++i) {
    TPU_ASSIGN(DeviceInfo info, pjrt::describe(api_, devices.descriptions[i]));
    device_infos_.push_back(std::move(info));
  }

  PJRT_TopologyDescription_Attributes_Args attributes = {
      .struct_size = PJRT_TopologyDescription_Attributes_Args_STRUCT_SIZE,
      .topology = topology_,
  };
  if (call<&PJRT_Api::PJRT_TopologyDescription_Attributes>(api_, attributes).ok()) {  // informative only
    attributes_ = text_of({attributes.attributes, attributes.num_attributes});
  }
  return {};
}

Result<std::unique_ptr<Compiled>> Topology::compile(std::string_view mlir, std::string_view options) const {
  const PJRT_Program program = mlir_program(mlir);
  PJRT_Compile_Args args = {
      .struct_size = PJRT_Compile_Args_STRUCT_SIZE,
      .topology = topology_,
      .program = &program,
      .compile_options = options.data(),
      .compile_options_size = options.size(),
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Compile>(api_, args));
  return Compiled::adopt(api_, args.executable);
}

}  // namespace tpu::pjrt
