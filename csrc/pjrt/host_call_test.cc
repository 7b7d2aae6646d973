#include "pjrt/host_call.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "pjrt/c_api.h"

namespace tpu::pjrt {
namespace {

constexpr const char* kTarget = "tests.host";
std::vector<int64_t> factors;  // of the calls, as they ran

Status multiply(const HostCall& call) {
  const int64_t factor = call.integer("factor");
  if (factor == 0) return invalid("a factor of 0, for " + std::string(call.text("who")));
  factors.push_back(factor);
  const auto* from = static_cast<const float*>(call.operands[0].data);
  auto* to = static_cast<float*>(call.results[0].data);
  for (int64_t i = 0; i < call.results[0].dims[0]; ++i) to[i] = from[i] * static_cast<float>(factor);
  return {};
}

// Calls multiply() once for each factor, each on what the one before it made.
std::string program(const std::vector<int>& factors_of_calls) {
  std::string body = "func.func @main(%v0: tensor<3xf32>) -> tensor<3xf32> {\n";
  int at = 0;
  for (const int factor : factors_of_calls) {
    const std::string in = "%v" + std::to_string(at), out = "%v" + std::to_string(at + 1);
    body += "  " + out + " = stablehlo.custom_call @" + kTarget + "(" + in +
            ") {api_version = 4 : i32, has_side_effect = true, backend_config = {function = \"multiply\", who = "
            "\"us\", factor = " +
            std::to_string(factor) + " : i64}} : (tensor<3xf32>) -> tensor<3xf32>\n";
    ++at;
  }
  return "module {\n" + body + "  return %v" + std::to_string(at) + " : tensor<3xf32>\n}\n}";
}

struct Fixture {
  Fixture() {
    const char* path = std::getenv("TORCH_TPU_PLUGIN");
    REQUIRE_MESSAGE(path != nullptr, "set TORCH_TPU_PLUGIN to the path of a CPU PJRT plugin (.so)");
    auto loaded = Plugin::load(path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
    enabled = enable_host_calls(**loaded, kTarget);
    REQUIRE_MESSAGE(enabled.ok(), enabled.message());
    auto made = Client::create(**loaded, {{"cpu_device_count", int64_t{1}}, {"asynchronous", false}});
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    client = std::move(*made);
    add_host_function("multiply", &multiply);
    factors.clear();
  }
  Result<Buffer> run(const Executable& executable) {
    const std::vector<float> x = {1, 2, 3};
    const std::vector<int64_t> dims = {3};
    auto in = client->upload(x.data(), DType::kF32, dims, 0, HostBuffer::kCopyNow);
    if (!in.ok()) return in.status();
    PJRT_Buffer* const raw = in->get();
    Buffer out;
    TPU_RETURN_IF_ERROR(executable.execute({&raw, 1}, {}, &out));
    return out;
  }
  Status enabled;
  std::unique_ptr<Client> client;
};

std::vector<float> read(Result<Buffer> buffer) {
  REQUIRE_MESSAGE(buffer.ok(), buffer.status().message());
  std::vector<float> data(3);
  auto done = buffer->to_host(data.data(), 3 * sizeof(float));
  REQUIRE_MESSAGE(done.ok(), done.status().message());
  const Status status = done->await();
  REQUIRE_MESSAGE(status.ok(), status.message());
  return data;
}

TEST_CASE("extensions that came after this header are passed over") {
  PJRT_Extension_Base ffi = {sizeof(ffi), PJRT_Extension_Type_FFI, nullptr}, newer = {sizeof(newer), {}, &ffi};
  const int type = 1000;
  static_assert(sizeof(newer.type) == sizeof(type));
  std::memcpy(&newer.type, &type, sizeof(type));
  PJRT_Api api = {};
  api.extension_start = &newer;
  CHECK(find_extension(&api, PJRT_Extension_Type_FFI) == &ffi);
  CHECK(find_extension(&api, PJRT_Extension_Type_Profiler) == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "a program calls functions of this process on its own buffers") {
  auto executable = client->compile(program({2, 3, 5}), CompileOptions().serialize());
  REQUIRE_MESSAGE(executable.ok(), executable.status().message());
  CHECK(read(run(**executable)) == std::vector<float>{30, 60, 90});
  CHECK(factors == std::vector<int64_t>{2, 3, 5});

  SUBCASE("also one that was loaded from bytes") {
    auto bytes = (*executable)->serialize();
    REQUIRE_MESSAGE(bytes.ok(), bytes.status().message());
    auto loaded = client->load(*bytes);
    REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
    CHECK(read(run(**loaded)) == std::vector<float>{30, 60, 90});
  }
}

TEST_CASE_FIXTURE(Fixture, "what such a function refuses is the launch's error") {
  auto executable = client->compile(program({2, 0}), CompileOptions().serialize());
  REQUIRE_MESSAGE(executable.ok(), executable.status().message());
  auto out = run(**executable);
  std::string message = out.status().message();
  if (out.ok()) {  // only the buffer's event may know
    float data[3];
    auto done = out->to_host(data, sizeof(data));
    message = done.ok() ? done->await().message() : done.status().message();
  }
  CHECK_MESSAGE(message.find("a factor of 0, for us") != std::string::npos, message);
  CHECK(factors == std::vector<int64_t>{2});
}

}  // namespace
}  // namespace tpu::pjrt
