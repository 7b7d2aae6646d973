#include <doctest/doctest.h>

#include "pjrt/pjrt.h"

namespace tpu::pjrt {

TEST_CASE("compile options are the same bytes each time") {
  CompileOptions options;
  options.num_replicas = 2;
  options.overrides["b"] = int64_t{300};
  options.overrides["a"] = false;
  const std::string minus_one = "\x08" + std::string(9, '\xFF') + "\x01";
  const std::string build = minus_one + "\x20\x02\x28\x01";
  const std::string a = std::string("\x0A\x01\x61\x12\x02\x10\x00", 7);  // "a": {bool_field: false}
  const std::string b = "\x0A\x01\x62\x12\x03\x18\xAC\x02";              // "b": {int_field: 300}
  CHECK(options.serialize() ==
        "\x1A" + std::string(1, static_cast<char>(build.size())) + build + "\x3A\x07" + a + "\x3A\x08" + b);
}

TEST_CASE("a device assignment is a list for each partition") {
  CompileOptions options;
  options.num_replicas = 2;
  options.num_partitions = 2;
  const std::string plain = options.serialize();
  options.devices = {0, 1, 2, 300};
  const std::string first = std::string("\x1A\x04\x0A\x02\x00\x01", 6), second = "\x1A\x05\x0A\x03\x02\xAC\x02";
  const std::string assigned = options.serialize();
  CHECK(assigned.size() == plain.size() + 2 + 17);
  CHECK(assigned.ends_with("\x4A\x11\x08\x02\x10\x02" + first + second));
}

}  // namespace tpu::pjrt
