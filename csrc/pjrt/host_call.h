// Functions of this process that a program on an XLA CPU plugin may call while it runs ("typed FFI" custom calls): on
// the program's own buffers, on a thread of the plugin's choice.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {

struct HostArray {  // dense, row-major
  DType dtype;
  void* data;
  std::span<const int64_t> dims;
};

class HostCall {
 public:
  HostCall(std::span<const HostArray> operands, std::span<const HostArray> results, const void* attributes)
      : operands(operands), results(results), attributes_(attributes) {}
  const std::span<const HostArray> operands, results;
  // An attribute of backend_config: an i64, a string, an array<i64>; 0 or empty where there is none of that type.
  int64_t integer(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  std::span<const int64_t> integers(std::string_view name) const;

 private:
  const void* attributes_;
};

// Must not throw. An error fails the launch.
using HostFunction = Status (*)(const HostCall& call);

// Names a function, for ever. Any thread.
void add_host_function(const std::string& name, HostFunction function);

// Lets programs of `plugin` call them, by custom calls of `target` (api_version 4) whose backend_config holds
// `function`, a name, and what that one reads. An error where the plugin has no such calls. A second call does nothing.
Status enable_host_calls(const Plugin& plugin, std::string_view target);

}  // namespace tpu::pjrt
