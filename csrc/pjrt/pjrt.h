// Thin owners over the PJRT C API (openxla's pjrt_c_api.h). Nothing above this folder sees a PJRT struct.
//
// Facts of the API that shape this layer: every call returns an error object that must be destroyed; structs carry
// their size, so a newer plugin reads an older caller; objects must die before their client; a plugin is never
// unloaded. Every function may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

struct PJRT_Api;
struct PJRT_Buffer;
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Event;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;
struct PJRT_TopologyDescription;

namespace tpu::pjrt {

using Option = std::variant<std::string, bool, int64_t, std::vector<int64_t>, float>;
using Options = std::map<std::string, Option>;

// A loaded plugin. Lives until the process ends.
class Plugin {
 public:
  // dlopens `path`, checks the API version (0.81 and newer of major 0), runs PJRT_Plugin_Initialize once. A second load
  // of the same path gives the same plugin. Errors name the path, and what was found and wanted.
  static Result<const Plugin*> load(const std::string& path);

  const PJRT_Api* api() const { return api_; }
  const std::string& path() const { return path_; }
  std::pair<int, int> api_version() const { return version_; }
  // Plugin attributes such as "xla_version" and "stablehlo_current_version", printed as text.
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

 private:
  const PJRT_Api* api_ = nullptr;
  std::string path_;
  std::pair<int, int> version_;
  std::map<std::string, std::string> attributes_;
};

// A one-shot completion. Move-only; the destructor frees without waiting.
class Event {
 public:
  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* event) : api_(api), event_(event) {}
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept;
  ~Event();
  explicit operator bool() const { return event_ != nullptr; }
  // True where it has happened, with or without an error.
  bool ready() const;
  // Blocks. The error is the operation's own.
  Status await() const;
  // `fn` runs once, on any thread, perhaps inside this call; it must not throw. The event may die before it runs.
  Status on_ready(std::function<void(Status)> fn) const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

class Client;

// A device array. Move-only owner; destroying it frees the memory once pending uses end.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  explicit operator bool() const { return buffer_ != nullptr; }
  PJRT_Buffer* get() const { return buffer_; }

  // Bytes on the device, layout padding included.
  Result<int64_t> device_bytes() const;
  // Copies row-major elements to `host`, which must hold `size` bytes until the event fires.
  Result<Event> to_host(void* host, size_t size) const;
  // Fires when the content is there; its error is that of the launch which should have made it.
  Result<Event> ready() const;
  // Address of the elements, only for plugins whose memory the host can read (CPU). Valid while the buffer lives.
  Result<void*> host_pointer() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

struct MemoryStats {  // bytes, as the compiler planned them
  int64_t arguments = 0, outputs = 0, temporaries = 0, aliased = 0, code = 0;
  int64_t peak = 0;  // 0 where the plugin does not say
};

// A compiled program, for a device that need not be there. Immutable.
class Compiled {
 public:
  // Takes ownership of `executable`, also where it fails.
  static Result<std::unique_ptr<Compiled>> adopt(const PJRT_Api* api, PJRT_Executable* executable);
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled();

  int num_outputs() const { return num_outputs_; }
  const MemoryStats& memory() const { return memory_; }
  // Optimized program as the plugin serializes it: every plugin known gives a binary xla.HloModuleProtoWithConfig.
  Result<std::string> optimized_hlo() const;
  // Figures of the plugin's cost analysis ("flops", "bytes accessed", ...); empty where it has none.
  std::map<std::string, double> cost() const;
  // Only of an executable that was compiled here: one loaded from bytes must not be serialized again.
  Result<std::string> serialize() const;

 protected:
  explicit Compiled(const PJRT_Api* api) : api_(api) {}
  Status describe(PJRT_Executable* executable);
  const PJRT_Api* api_;

 private:
  PJRT_Executable* executable_ = nullptr;
  int num_outputs_ = 0;
  MemoryStats memory_;
};

// A compiled program loaded on a client's device. execute() may run from several threads at once.
class Executable : public Compiled {
 public:
  // Takes ownership of `loaded`, also where it fails.
  static Result<std::unique_ptr<Executable>> adopt(const PJRT_Api* api, PJRT_LoadedExecutable* loaded);
  ~Executable();

  // Enqueues one launch on the one device it was compiled for. `keep` lists the arguments that must not be donated
  // although the program may take them. Writes num_outputs() buffers. Allocates nothing for up to 64 operands.
  Status execute(std::span<PJRT_Buffer* const> arguments, std::span<const int64_t> keep, Buffer* outputs) const;

 private:
  Executable(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) : Compiled(api), loaded_(loaded) {}
  PJRT_LoadedExecutable* loaded_;
};

enum class HostBuffer {
  kCopyNow,    // the host memory may change when the call returns
  kUntilDone,  // ... when `done` was called (the transfer has ended)
  kZeroCopy,   // the device may read it in place until `done` is called (the buffer was freed)
};

struct DeviceInfo {
  int id = 0;
  std::string kind;                               // "cpu", "TPU v5 lite"
  std::string description;                        // for people
  std::map<std::string, std::string> attributes;  // "coords", "core_on_chip", ..., as text
};

class Client {
 public:
  static Result<std::unique_ptr<Client>> create(const Plugin& plugin, const Options& options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  const Plugin& plugin() const { return plugin_; }
  const std::string& platform_name() const { return platform_name_; }        // "cpu", "tpu", "cuda"
  const std::string& platform_version() const { return platform_version_; }  // the compiler's build
  // Addressable devices.
  std::span<const DeviceInfo> devices() const { return device_infos_; }
  // Bytes that the device's allocator may hand out, 0 where it does not say; an error where the plugin keeps no
  // statistics, as on CPU.
  Result<int64_t> memory_limit(int device) const;

  // `mlir` is StableHLO text (or bytecode); `options` a serialized xla.CompileOptionsProto.
  Result<std::unique_ptr<Executable>> compile(std::string_view mlir, std::string_view options) const;
  // `bytes` from Executable::serialize() of the same plugin build.
  Result<std::unique_ptr<Executable>> load(std::string_view bytes) const;
  // Row-major elements. `done` may be empty; it runs once, also where the upload fails, on any thread, and must not
  // throw.
  Result<Buffer> upload(const void* host, DType dtype, std::span<const int64_t> dims, int device, HostBuffer mode,
                        std::function<void()> done = {}) const;

 private:
  explicit Client(const Plugin& plugin) : plugin_(plugin) {}
  const Plugin& plugin_;
  PJRT_Client* client_ = nullptr;
  std::string platform_name_, platform_version_;
  std::vector<PJRT_Device*> devices_;
  std::vector<DeviceInfo> device_infos_;
};

// Devices that need not be there, as the compiler knows them.
class Topology {
 public:
  // `name` is the plugin's: "v5e:2x2", "v5p:4x4x4".
  static Result<std::unique_ptr<Topology>> create(const Plugin& plugin, const std::string& name,
                                                  const Options& options = {});
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  ~Topology();

  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  std::span<const DeviceInfo> devices() const { return device_infos_; }
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

  // As Client::compile(); `options` must assign a device to each replica and partition.
  Result<std::unique_ptr<Compiled>> compile(std::string_view mlir, std::string_view options) const;

 private:
  explicit Topology(const PJRT_Api* api) : api_(api) {}
  Status describe();
  const PJRT_Api* api_;
  PJRT_TopologyDescription* topology_ = nullptr;
  std::string platform_name_, platform_version_;
  std::vector<DeviceInfo> device_infos_;
  std::map<std::string, std::string> attributes_;
};

// What a compile of ours asks of XLA, serialized as xla.CompileOptionsProto (written by hand: the message is small and
// protobuf is not otherwise needed).
struct CompileOptions {
  int num_replicas = 1;
  int num_partitions = 1;
  // Ids, a partition after the other, each with its replicas; empty: the client's choice.
  std::vector<int64_t> devices;
  // env_option_overrides: debug options by name.
  std::map<std::string, std::variant<bool, int64_t, double, std::string>> overrides;
  std::string serialize() const;
};

}  // namespace tpu::pjrt
