#include "cache/target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "cache/entry.h"

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

// Everything that the options key is made of, each part with what people call it.
std::vector<std::pair<std::string, std::string>> parts_of(const pjrt::Client& client, std::string_view options) {
  const auto sized = [](std::string_view text) { return std::to_string(text.size()).append(" ").append(text); };
  std::string plugin = sized(client.platform_name()) + sized(client.platform_version()) +
                       sized(client.devices().front().kind) + sized(file_identity(client.plugin().path()));
  for (const auto& [name, value] : client.plugin().attributes()) plugin += sized(name + "=" + value);
  const char* flags = std::getenv("XLA_FLAGS");
  return {{"compile options", std::string(options)},
          {"plugin", plugin},
          {"processor", client.platform_name() == "cpu" ? cpu_features() : ""},
          {"XLA_FLAGS", flags != nullptr ? flags : ""}};
}

}  // namespace

std::string options_of(const pjrt::Client& client, std::string_view compile_options) {
  std::string all = std::to_string(kEntryVersion) + "\n";
  for (const auto& [name, text] : parts_of(client, compile_options)) {
    all += std::to_string(text.size()).append(" ").append(text).append("\n");
  }
  return all;
}

std::string made_by(const pjrt::Client& client, std::string_view compile_options) {
  const std::filesystem::path path = client.plugin().path();
  const auto [major, minor] = client.plugin().api_version();
  std::string digests;
  for (const auto& [name, text] : parts_of(client, compile_options)) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_bytes(text)));
    digests += (digests.empty() ? "" : "; ") + name + " " + digits;
  }
  return "torch_tpu " TORCH_TPU_VERSION ", " + client.devices().front().kind + " by " +
         (path.parent_path().filename() / path.filename()).string() + ", PJRT " + std::to_string(major) + "." +
         std::to_string(minor) + " [" + digests + "]";
}

}  // namespace tpu::cache
