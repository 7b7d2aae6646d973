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

}  // namespace tpu::pjrt
