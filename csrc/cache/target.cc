#include "cache/target.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "base/hash.h"

namespace tpu::cache {
namespace {

// CPU plugins of all builds say the same version. Two builds differ in the head of the file, where the linker's build
// id is, or in its tail, the table of sections, or in size; reading all of it would take longer than a compile.
std::string file_identity(const std::string& path) {
  constexpr std::streamoff kPart = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (!file || size < 0) return path;
  const std::streamoff part = std::min(size, kPart);
  std::string bytes(static_cast<size_t>(2 * part), '\0');
  file.seekg(0);
  file.read(bytes.data(), part);
  file.seekg(size - part);
  file.read(bytes.data() + part, part);
  return std::to_string(size) + ":" + std::to_string(hash_bytes(bytes));
}

// The compiler for a CPU takes what that CPU has.
std::string cpu_features() {
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  std::set<std::string> seen;
  for (std::string line; std::getline(file, line);) {
    const std::string name = line.substr(0, line.find_first_of("\t:"));
    if ((name == "flags" || name == "Features" || name == "model name") && seen.insert(name).second)
      text += line + "\n";
  }
  return text;
}

}  // namespace

uint64_t options_key(const pjrt::Client& client, std::string_view compile_options) {
  uint64_t key = 0;
  const auto fold = [&](std::string_view text) { key = mix(key, hash_bytes(text)); };
  fold(compile_options);
  fold(client.platform_name());
  fold(client.platform_version());
  fold(client.devices().front().kind);
  fold(file_identity(client.plugin().path()));
  for (const auto& [name, value] : client.plugin().attributes()) fold(name + "=" + value);
  if (client.platform_name() == "cpu") fold(cpu_features());
  const char* flags = std::getenv("XLA_FLAGS");
  fold(flags != nullptr ? flags : "");
  return key;
}

}  // namespace tpu::cache
