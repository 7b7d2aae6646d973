#include "cache/entry.h"

#include <zstd.h>

#include <array>
#include <cstring>

#include "base/hash.h"

namespace tpu::cache {
namespace {

constexpr std::array<char, 8> kMagic{'t', 'o', 'r', 'c', 'h', 't', 'p', 'u'};
constexpr uint64_t kLargest = uint64_t{1} << 32;  // bytes: no length from a file makes us ask for more
constexpr size_t kLongestWords = 1024;
constexpr int kLevel = 3;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t version = kEntryVersion;
  Fingerprint key;
  uint64_t name_size = 0, made_by_size = 0, program_size = 0, executable_size = 0, packed_size = 0;
  uint64_t checksum = 0;  // of the header with 0 here, and of what follows it
  size_t words_size() const { return name_size + made_by_size; }
};
static_assert(sizeof(Header) == 88);
static_assert(sizeof(Header) + 2 * kLongestWords <= kLabelSize);

uint64_t checksum(Header header, std::string_view rest) {
  header.checksum = 0;
  return hash_bytes(rest, hash_bytes(&header, sizeof(header)));
}

Status damaged(const char* how) { return {Code::kInvalidArgument, std::string("it is ") + how}; }
Status of_another_program() { return {Code::kNotFound, "it is that of another program"}; }

// Lengths are then such that the words of a label are within kLabelSize.
Result<Header> read_header(std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(Header)) return damaged("cut short");
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != kMagic) return damaged("no entry of torch_tpu");
  if (header.version != kEntryVersion) return damaged("of another version");
  if (header.name_size > kLongestWords || header.made_by_size > kLongestWords || header.program_size > kLargest ||
      header.executable_size > kLargest) {
    return damaged("damaged");
  }
  return header;
}

// The header of an entry whose bytes are those that were written.
Result<Header> check_whole(std::string_view bytes) {
  TPU_ASSIGN(const Header header, read_header(bytes));
  const std::string_view rest = bytes.substr(sizeof(Header));
  if (header.words_size() + header.packed_size != rest.size()) return damaged("cut short, or longer than it was");
  if (header.checksum != checksum(header, rest)) return damaged("damaged");
  return header;
}

// Program and executable.
Result<std::string> unpack(const Header& header, std::string_view bytes) {
  const std::string_view packed = bytes.substr(sizeof(Header) + header.words_size());
  std::string content(header.program_size + header.executable_size, '\0');
  const size_t size = ZSTD_decompress(content.data(), content.size(), packed.data(), packed.size());
  if (size != content.size()) return damaged("damaged");
  return content;
}

}  // namespace

std::string Fingerprint::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint64_t part : {structure, dimensions, options}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[part >> shift & 15];
  }
  return text;
}

std::string encode(const Fingerprint& key, const About& about, std::string_view program, std::string_view executable) {
  const std::string content = std::string(program).append(executable);
  const std::string name = about.name.substr(0, kLongestWords), made_by = about.made_by.substr(0, kLongestWords);
  std::string bytes = std::string(sizeof(Header), '\0').append(name).append(made_by);
  const size_t before = bytes.size();
  bytes.resize(before + ZSTD_compressBound(content.size()));
  const size_t packed =
      ZSTD_compress(bytes.data() + before, bytes.size() - before, content.data(), content.size(), kLevel);
  bytes.resize(before + packed);
  Header header;
  header.key = key;
  header.name_size = name.size();
  header.made_by_size = made_by.size();
  header.program_size = program.size();
  header.executable_size = executable.size();
  header.packed_size = packed;
  header.checksum = checksum(header, std::string_view(bytes).substr(sizeof(Header)));
  std::memcpy(bytes.data(), &header, sizeof(Header));
  return bytes;
}

Result<std::string> decode(std::string_view bytes, const Fingerprint& key, std::string_view program) {
  TPU_ASSIGN(const Header header, check_whole(bytes));
  if (header.key != key || header.program_size != program.size()) return of_another_program();
  TPU_ASSIGN(std::string content, unpack(header, bytes));
  if (!content.starts_with(program)) return of_another_program();
  return content.substr(program.size());
}

Result<Label> read_label(std::string_view front) {
  TPU_ASSIGN(const Header header, read_header(front));
  const std::string_view words = front.substr(sizeof(Header));
  if (words.size() < header.words_size()) return damaged("cut short");
  return Label{header.key,
               {std::string(words.substr(0, header.name_size)),
                std::string(words.substr(header.name_size, header.made_by_size))},
               header.program_size,
               header.executable_size};
}

Status verify(std::string_view bytes) {
  TPU_ASSIGN(const Header header, check_whole(bytes));
  return unpack(header, bytes).status();
}

}  // namespace tpu::cache
