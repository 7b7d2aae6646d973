#include "runtime/dump.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace tpu::runtime {
namespace {

std::atomic<int> next_number{0};

// As part of a file's name.
std::string plain(std::string_view name) {
  constexpr size_t kMost = 80;
  std::string s;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      s += c;
    } else if (!s.empty() && s.back() != '_') {
      s += '_';
    }
  }
  s = s.substr(0, kMost);
  while (s.ends_with('_')) s.pop_back();
  return s;
}

}  // namespace

std::string dump_directory() {
  const char* directory = std::getenv("TORCH_TPU_DUMP");
  return directory != nullptr ? directory : "";
}

Result<std::string> dump(const std::string& directory, const Program& program, bool for_cpu,
                         std::span<const Line> lines) {
  Program copy(static_cast<const Request&>(program));
  const std::string name = name_of(copy.recording, copy.live);
  const std::string text = build(copy, for_cpu, places_of(copy.recording, lines));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  char number[16];
  std::snprintf(number, sizeof number, "%04d-", next_number++);
  const std::string stem = directory + "/" + number + plain(name);
  std::ofstream file(stem + ".mlir");
  file << "// " << name << "\n" << text;
  file.close();
  if (!file) return Status(Code::kNotFound, "TORCH_TPU_DUMP: cannot write " + stem + ".mlir");
  return stem;
}

}  // namespace tpu::runtime
