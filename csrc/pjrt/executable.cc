#include <array>

#include "pjrt/c_api.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {
namespace {

constexpr size_t kStackOutputs = 64;

MemoryStats memory_of(const PJRT_Api* api, PJRT_Executable* executable) {
  PJRT_Executable_GetCompiledMemoryStats_Args args = {
      .struct_size = PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE,
      .executable = executable,
  };
  if (!call<&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats>(api, args).ok()) return {};
  return {
      .arguments = args.argument_size_in_bytes,
      .outputs = args.output_size_in_bytes,
      .temporaries = args.temp_size_in_bytes,
      .aliased = args.alias_size_in_bytes,
      .code = args.generated_code_size_in_bytes,
      .peak = args.peak_memory_in_bytes,
  };
}

}  // namespace

Status Compiled::describe(PJRT_Executable* executable) {
  executable_ = executable;
  PJRT_Executable_NumOutputs_Args outputs = {
      .struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE,
      .executable = executable,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Executable_NumOutputs>(api_, outputs));
  num_outputs_ = static_cast<int>(outputs.num_outputs);
  memory_ = memory_of(api_, executable);
  return {};
}

Result<std::unique_ptr<Compiled>> Compiled::adopt(const PJRT_Api* api, PJRT_Executable* executable) {
  std::unique_ptr<Compiled> self(new Compiled(api));
  TPU_RETURN_IF_ERROR(self->describe(executable));
  return self;
}

Compiled::~Compiled() {
  if (executable_ == nullptr) return;
  PJRT_Executable_Destroy_Args args = {
      .struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE,
      .executable = executable_,
  };
  discard(api_, api_->PJRT_Executable_Destroy(&args));
}

Result<std::unique_ptr<Executable>> Executable::adopt(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) {
  std::unique_ptr<Executable> self(new Executable(api, loaded));
  PJRT_LoadedExecutable_GetExecutable_Args get = {
      .struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE,
      .loaded_executable = loaded,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_LoadedExecutable_GetExecutable>(api, get));
  TPU_RETURN_IF_ERROR(self->describe(get.executable));
  return self;
}

Executable::~Executable() {
  PJRT_LoadedExecutable_Destroy_Args args = {
      .struct_size = PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE,
      .executable = loaded_,
  };
  discard(api_, api_->PJRT_LoadedExecutable_Destroy(&args));
}

Result<std::string> Compiled::optimized_hlo() const {
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE};
  PJRT_Executable_OptimizedProgram_Args args = {
      .struct_size = PJRT_Executable_OptimizedProgram_Args_STRUCT_SIZE,
      .executable = executable_,
      .program = &program,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Executable_OptimizedProgram>(api_, args));
  std::string code(program.code_size, '\0');
  program.code = code.data();
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Executable_OptimizedProgram>(api_, args));
  return code;
}

std::map<std::string, double> Compiled::cost() const {
  PJRT_Executable_GetCostAnalysis_Args args = {
      .struct_size = PJRT_Executable_GetCostAnalysis_Args_STRUCT_SIZE,
      .executable = executable_,
  };
  std::map<std::string, double> figures;
  if (!call<&PJRT_Api::PJRT_Executable_GetCostAnalysis>(api_, args).ok()) return figures;
  for (size_t i = 0; i < args.num_properties; ++i) {
    const PJRT_NamedValue& value = args.properties[i];
    const std::string name(value.name, value.name_size);
    if (value.type == PJRT_NamedValue_kFloat) figures[name] = value.float_value;
    if (value.type == PJRT_NamedValue_kInt64) figures[name] = static_cast<double>(value.int64_value);
  }
  return figures;
}

Result<std::string> Compiled::serialize() const {
  PJRT_Executable_Serialize_Args args = {
      .struct_size = PJRT_Executable_Serialize_Args_STRUCT_SIZE,
      .executable = executable_,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Executable_Serialize>(api_, args));
  const std::unique_ptr<PJRT_SerializedExecutable, void (*)(PJRT_SerializedExecutable*)> backing(
      args.serialized_executable, args.serialized_executable_deleter);
  return std::string(args.serialized_bytes, args.serialized_bytes_size);
}

Status Executable::execute(std::span<PJRT_Buffer* const> arguments, std::span<const int64_t> keep,
                           Buffer* outputs) const {
  const auto count = static_cast<size_t>(num_outputs());
  std::array<PJRT_Buffer*, kStackOutputs> on_stack;
  std::vector<PJRT_Buffer*> on_heap;
  PJRT_Buffer** made = on_stack.data();
  if (count > kStackOutputs) [[unlikely]] {
    on_heap.resize(count);
    made = on_heap.data();
  }
  PJRT_ExecuteOptions options = {
      .struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
      .non_donatable_input_indices = keep.data(),
      .num_non_donatable_input_indices = keep.size(),
  };
  PJRT_Buffer* const* const argument_list = arguments.data();
  PJRT_LoadedExecutable_Execute_Args args = {
      .struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE,
      .executable = loaded_,
      .options = &options,
      .argument_lists = &argument_list,
      .num_devices = 1,
      .num_args = arguments.size(),
      .output_lists = &made,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_LoadedExecutable_Execute>(api_, args));
  for (size_t i = 0; i < count; ++i) outputs[i] = Buffer(api_, made[i]);
  return {};
}

}  // namespace tpu::pjrt
