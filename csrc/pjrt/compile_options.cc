#include <bit>
#include <span>
#include <type_traits>

#include "pjrt/pjrt.h"

// Field numbers of xla/pjrt/proto/compile_options.proto. Protobuf's wire format: a key (field << 3 | wire type), then
// a varint (type 0), eight little-endian bytes (type 1), or a length and bytes (type 2).
namespace tpu::pjrt {
namespace {

void put_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}

void put_int(std::string& out, int field, int64_t v) {
  put_varint(out, static_cast<uint64_t>(field) << 3);
  put_varint(out, static_cast<uint64_t>(v));  // negative numbers take ten bytes, as protobuf has it
}

void put_double(std::string& out, int field, double v) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 1);
  const auto bits = std::bit_cast<uint64_t>(v);
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(bits >> shift);
}

void put_bytes(std::string& out, int field, const std::string& bytes) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

// OptionOverrideProto is a oneof, so a value of false or 0 is written too.
std::string override_proto(const std::variant<bool, int64_t, double, std::string>& value) {
  std::string out;
  std::visit(
      [&out](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          put_bytes(out, 1, v);
        } else if constexpr (std::is_same_v<T, bool>) {
          put_int(out, 2, v ? 1 : 0);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          put_int(out, 3, v);
        } else {
          put_double(out, 4, v);
        }
      },
      value);
  return out;
}

// xla.DeviceAssignmentProto
std::string assignment_proto(int num_replicas, int num_partitions, std::span<const int64_t> devices) {
  std::string out;
  put_int(out, 1, num_replicas);
  put_int(out, 2, num_partitions);
  for (const int64_t* at = devices.data(); at + num_replicas <= devices.data() + devices.size(); at += num_replicas) {
    std::string ids, partition;
    for (int i = 0; i < num_replicas; ++i) put_varint(ids, static_cast<uint64_t>(at[i]));
    put_bytes(partition, 1, ids);
    put_bytes(out, 3, partition);
  }
  return out;
}

}  // namespace

std::string CompileOptions::serialize() const {
  std::string build;      // ExecutableBuildOptionsProto
  put_int(build, 1, -1);  // device_ordinal: the client's choice
  put_int(build, 4, num_replicas);
  put_int(build, 5, num_partitions);
  if (!devices.empty()) put_bytes(build, 9, assignment_proto(num_replicas, num_partitions, devices));

  std::string out;  // CompileOptionsProto
  put_bytes(out, 3, build);
  for (const auto& [name, value] : overrides) {  // in the map's order, so equal options are equal bytes
    std::string entry;
    put_bytes(entry, 1, name);
    put_bytes(entry, 2, override_proto(value));
    put_bytes(out, 7, entry);
  }
  return out;
}

}  // namespace tpu::pjrt
