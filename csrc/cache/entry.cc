#include "cache/entry.h"

#include <zstd.h>

#include <array>
#include <cstring>

#include "base/hash.h"

namespace tpu::cache {
namespace {

constexpr std::array<char, 8> kMagic{'t', 'o', 'r', 'c', 'h', 't', 'p', 'u'};
constexpr uint64_t kVersion = 1;
constexpr uint64_t kLargest = uint64_t{1} << 32;  // bytes: no length from a file makes us ask for more
constexpr int kLevel = 3;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t version = kVersion;
  Fingerprint key;
  uint64_t program_size = 0, executable_size = 0, packed_size = 0;
  uint64_t checksum = 0;  // of the header with 0 here, and of what follows it
};
static_assert(sizeof(Header) == 72);

uint64_t checksum(Header header, std::string_view packed) {
  header.checksum = 0;
  return hash_bytes(packed, hash_bytes(&header, sizeof(header)));
}

Status damaged(const char* how) { return {Code::kInvalidArgument, std::string("it is ") + how}; }

}  // namespace

std::string Fingerprint::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint64_t part : {structure, dimensions, options}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[part >> shift & 15];
  }
  return text;
}

std::string encode(const Fingerprint& key, std::string_view program, std::string_view executable) {
  const std::string content = std::string(program).append(executable);
  std::string bytes(sizeof(Header) + ZSTD_compressBound(content.size()), '\0');
  const size_t packed = ZSTD_compress(bytes.data() + sizeof(Header), bytes.size() - sizeof(Header), content.data(),
                                      content.size(), kLevel);
  bytes.resize(sizeof(Header) + packed);
  Header header;
  header.key = key;
  header.program_size = program.size();
  header.executable_size = executable.size();
  header.packed_size = packed;
  header.checksum = checksum(header, std::string_view(bytes).substr(sizeof(Header)));
  std::memcpy(bytes.data(), &header, sizeof(Header));
  return bytes;
}

Result<std::string> decode(std::string_view bytes, const Fingerprint& key, std::string_view program) {
  Header header;
  if (bytes.size() < sizeof(Header)) return damaged("cut short");
  std::memcpy(&header, bytes.data(), sizeof(Header));
  const std::string_view packed = bytes.substr(sizeof(Header));
  if (header.magic != kMagic) return damaged("no entry of torch_tpu");
  if (header.version != kVersion) return damaged("of another version");
  if (header.packed_size != packed.size()) return damaged("cut short, or longer than it was");
  if (header.checksum != checksum(header, packed)) return damaged("damaged");
  if (std::memcmp(&header.key, &key, sizeof(key)) != 0 || header.program_size != program.size() ||
      header.executable_size > kLargest) {
    return damaged("that of another program");
  }
  std::string content(header.program_size + header.executable_size, '\0');
  const size_t size = ZSTD_decompress(content.data(), content.size(), packed.data(), packed.size());
  if (size != content.size()) return damaged("damaged");
  if (!content.starts_with(program)) return damaged("that of another program");
  return content.substr(program.size());
}

}  // namespace tpu::cache
