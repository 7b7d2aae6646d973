#include "pjrt/pjrt.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

namespace tpu::pjrt {
namespace {

const std::string kF32x4 = "tensor<4xf32>";

// The whole run fails here, with the reason, where no plugin is named.
std::string plugin_path() {
  const char* path = std::getenv("TORCH_TPU_PLUGIN");
  REQUIRE_MESSAGE(path != nullptr, "set TORCH_TPU_PLUGIN to the path of a CPU PJRT plugin (.so)");
  return path;
}

template <typename T>
T value(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  return std::move(*result);
}

void check(const Status& status) { REQUIRE_MESSAGE(status.ok(), status.message()); }

// One client for all tests: creating one starts a thread pool.
const Client& client() {
  static const std::unique_ptr<Client> one =
      value(Client::create(*value(Plugin::load(plugin_path())), {{"cpu_device_count", int64_t{2}}}));
  return *one;
}

std::unique_ptr<Executable> compile(const std::string& body, const CompileOptions& options = {}) {
  return value(client().compile("module {\n" + body + "\n}", options.serialize()));
}

// z = x + y over four floats; `mark` is x's attribute.
std::string add_program(const std::string& mark = "") {
  return "func.func @main(%x: " + kF32x4 + mark + ", %y: " + kF32x4 + ") -> " + kF32x4 +
         " {\n  %z = stablehlo.add %x, %y : " + kF32x4 + "\n  return %z : " + kF32x4 + "\n}";
}

template <typename T>
Buffer upload(const std::vector<T>& data, DType dtype, std::vector<int64_t> dims, int device = 0) {
  return value(client().upload(data.data(), dtype, dims, device, HostBuffer::kCopyNow));
}

Buffer upload(const std::vector<float>& data) { return upload(data, DType::kF32, {static_cast<int64_t>(data.size())}); }

template <typename T = float>
std::vector<T> read(const Buffer& buffer, size_t count) {
  std::vector<T> data(count);
  check(value(buffer.to_host(data.data(), count * sizeof(T))).await());
  return data;
}

Result<Buffer> run(const Executable& program, const std::vector<const Buffer*>& arguments,
                   const std::vector<int64_t>& keep = {}) {
  std::vector<PJRT_Buffer*> raw;
  for (const Buffer* b : arguments) raw.push_back(b->get());
  REQUIRE(program.num_outputs() == 1);
  Buffer out;
  TPU_RETURN_IF_ERROR(program.execute(raw, keep, &out));
  return out;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool comes_true(const std::atomic<bool>& flag) {
  for (int i = 0; i < 5000 && !flag; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return flag;
}

}  // namespace

TEST_CASE("a missing plugin and a library that is none are named") {
  const auto missing = Plugin::load("/nonexistent/plugin.so");
  REQUIRE(!missing.ok());
  CHECK(missing.status().code() == Code::kNotFound);
  CHECK(contains(missing.status().message(), "/nonexistent/plugin.so"));

  const auto other = Plugin::load("libm.so.6");
  REQUIRE(!other.ok());
  CHECK(other.status().code() == Code::kInvalidArgument);
  CHECK(contains(other.status().message(), "libm.so.6"));
  CHECK(contains(other.status().message(), "GetPjrtApi"));
}

TEST_CASE("a plugin is loaded once") {
  const Plugin* const plugin = value(Plugin::load(plugin_path()));
  CHECK(value(Plugin::load(plugin_path())) == plugin);
  CHECK(plugin->api_version() >= std::pair(0, 81));
  CHECK(plugin->attributes().contains("stablehlo_current_version"));
}

TEST_CASE("a client tells its devices") {
  CHECK(client().platform_name() == "cpu");
  REQUIRE(client().devices().size() == 2);
  CHECK(client().devices()[1].id == 1);
  CHECK(client().devices()[0].kind == "cpu");
}

TEST_CASE("a topology that the plugin does not know is named") {
  // Those that one knows are tried by tests/test_aot.py: only libtpu has any, and one process at a time may load it.
  const auto unknown = Topology::create(*value(Plugin::load(plugin_path())), "v5e:2x2");
  REQUIRE(!unknown.ok());
  CHECK(contains(unknown.status().message(), "topology v5e:2x2"));
}

TEST_CASE("compile, execute, read back") {
  const auto program = compile(add_program());
  const Buffer x = upload({1, 2, 3, 4});
  const Buffer y = upload({10, 20, 30, 40});
  const Buffer z = value(run(*program, {&x, &y}));
  check(value(z.ready()).await());
  CHECK(read(z, 4) == std::vector<float>{11, 22, 33, 44});
  CHECK(value(z.device_bytes()) >= 16);
  CHECK(std::memcmp(value(z.host_pointer()), std::array<float, 4>{11, 22, 33, 44}.data(), 16) == 0);
}

TEST_CASE("errors carry the compiler's text") {
  const auto broken = client().compile("module { func.func @main( }", CompileOptions{}.serialize());
  REQUIRE(!broken.ok());
  CHECK(contains(broken.status().message(), "error:"));

  CompileOptions options;
  options.overrides["no_such_option"] = true;
  const auto unknown = client().compile("module {" + add_program() + "}", options.serialize());
  REQUIRE(!unknown.ok());
  CHECK(unknown.status().code() == Code::kInvalidArgument);
  CHECK(contains(unknown.status().message(), "no_such_option"));
}

TEST_CASE("wrong calls are errors, not crashes") {
  const auto program = compile(add_program());
  const Buffer x = upload({1, 2, 3, 4});
  CHECK(!run(*program, {&x}).ok());
  std::array<float, 2> small;
  CHECK(!x.to_host(small.data(), sizeof small).ok());
  bool done = false;
  const auto nowhere = client().upload(small.data(), DType::kF32, std::array<int64_t, 1>{2}, 7, HostBuffer::kZeroCopy,
                                       [&done] { done = true; });
  CHECK(nowhere.status().code() == Code::kInvalidArgument);
  CHECK(done);
}

TEST_CASE("more outputs than fit the stack") {
  constexpr size_t kCount = 100;
  std::string types, values;
  for (size_t i = 0; i < kCount; ++i) {
    types += (i > 0 ? ", " : "") + kF32x4;
    values += (i > 0 ? ", " : "") + std::string(i % 2 == 0 ? "%x" : "%z");
  }
  const auto program =
      compile("func.func @main(%x: " + kF32x4 + ") -> (" + types + ") {\n  %z = stablehlo.add %x, %x : " + kF32x4 +
              "\n  return " + values + " : " + types + "\n}");
  REQUIRE(program->num_outputs() == kCount);
  const Buffer x = upload({1, 2, 3, 4});
  PJRT_Buffer* const argument = x.get();
  std::vector<Buffer> out(kCount);
  check(program->execute(std::span(&argument, 1), {}, out.data()));
  CHECK(read(out[98], 4) == std::vector<float>{1, 2, 3, 4});
  CHECK(read(out[99], 4) == std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("a marked argument is donated unless it is kept") {
  for (const std::string mark : {" {jax.buffer_donor = true}", " {tf.aliasing_output = 0 : i32}"}) {
    CAPTURE(mark);
    const auto program = compile(add_program(mark));
    const Buffer x = upload({1, 2, 3, 4});
    const Buffer y = upload({1, 1, 1, 1});
    const void* const where = value(x.host_pointer());

    const Buffer kept = value(run(*program, {&x, &y}, {0}));
    CHECK(read(kept, 4) == std::vector<float>{2, 3, 4, 5});
    CHECK(read(x, 4) == std::vector<float>{1, 2, 3, 4});
    CHECK(value(kept.host_pointer()) != where);

    const Buffer taken = value(run(*program, {&x, &y}));
    CHECK(read(taken, 4) == std::vector<float>{2, 3, 4, 5});
    CHECK(value(taken.host_pointer()) == where);
    std::array<float, 4> gone;
    const auto copied = x.to_host(gone.data(), sizeof gone);  // the plugin may tell here, or through the event
    CHECK(!(copied.ok() && copied->await().ok()));
    CHECK(!run(*program, {&x, &y}).ok());
  }
}

TEST_CASE("an executable survives serialization") {
  const std::string bytes = value(compile(add_program())->serialize());
  CHECK(bytes.size() > 100);
  const auto program = value(client().load(bytes));
  CHECK(program->num_outputs() == 1);
  const Buffer x = upload({1, 2, 3, 4});
  CHECK(read(value(run(*program, {&x, &x})), 4) == std::vector<float>{2, 4, 6, 8});
  CHECK(!client().load("not an executable").ok());
}

TEST_CASE("memory statistics") {
  const auto plain = compile(add_program());
  CHECK(plain->memory().arguments == 32);
  CHECK(plain->memory().outputs == 16);
  CHECK(plain->memory().aliased == 0);
  CHECK(compile(add_program(" {tf.aliasing_output = 0 : i32}"))->memory().aliased == 16);
  CHECK(value(plain->optimized_hlo()).size() > 0);
}

TEST_CASE("upload: the host memory may be reused as each mode says") {
  alignas(64) std::array<float, 16> host;
  host.fill(1);
  const std::array<int64_t, 2> dims = {4, 4};

  const Buffer copied = value(client().upload(host.data(), DType::kF32, dims, 0, HostBuffer::kCopyNow));
  host.fill(2);
  CHECK(read(copied, 16) == std::vector<float>(16, 1));

  std::atomic<bool> done = false;
  const auto set_done = [&done] { done = true; };
  const Buffer until = value(client().upload(host.data(), DType::kF32, dims, 1, HostBuffer::kUntilDone, set_done));
  check(value(until.ready()).await());
  CHECK(read(until, 16) == std::vector<float>(16, 2));

  std::atomic<bool> freed = false;
  Buffer in_place =
      value(client().upload(host.data(), DType::kF32, dims, 0, HostBuffer::kZeroCopy, [&freed] { freed = true; }));
  CHECK(value(in_place.host_pointer()) == host.data());
  CHECK(!freed);
  in_place = {};
  CHECK(comes_true(freed));
}

TEST_CASE("dtypes and shapes keep their bytes") {
  const auto same = []<typename T>(const std::vector<T>& data, DType dtype, std::vector<int64_t> dims) {
    const Buffer buffer = upload(data, dtype, std::move(dims));
    return read<T>(buffer, data.size()) == data;
  };
  CHECK(same(std::vector<float>{1, -0.5f, 3, 4, 5, 6}, DType::kF32, {2, 3}));
  CHECK(same(std::vector<float>{7}, DType::kF32, {}));
  CHECK(same(std::vector<uint16_t>{0x3F80, 0xC000, 0x7F80}, DType::kBF16, {3}));
  CHECK(same(std::vector<uint8_t>{0, 1, 1, 0}, DType::kBool, {2, 1, 2}));
  CHECK(same(std::vector<float>{1, 2, 3, 4}, DType::kC64, {2}));
  CHECK(same(std::vector<int64_t>{-1, int64_t{1} << 40}, DType::kS64, {1, 2}));
  CHECK(same(std::vector<double>{1e300}, DType::kF64, {1}));
  CHECK(same(std::vector<uint8_t>{0x38, 0x40}, DType::kF8E4M3FN, {2}));
  CHECK(same(std::vector<float>{}, DType::kF32, {0, 3}));
}

TEST_CASE("read back is row-major though the program transposes") {
  const auto program = compile(
      "func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {\n"
      "  %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
      "  return %y : tensor<3x2xf32>\n}");
  const Buffer x = upload(std::vector<float>{1, 2, 3, 4, 5, 6}, DType::kF32, {2, 3});
  CHECK(read(value(run(*program, {&x})), 6) == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("overrides reach the compiler: maximum(1, NaN) is NaN") {
  CompileOptions options;
  options.overrides["xla_cpu_enable_fast_min_max"] = false;
  const auto program =
      compile("func.func @main(%x: " + kF32x4 + ", %y: " + kF32x4 + ") -> " + kF32x4 +
                  " {\n  %z = stablehlo.maximum %x, %y : " + kF32x4 + "\n  return %z : " + kF32x4 + "\n}",
              options);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Buffer x = upload({1, nan, nan, 1});
  const Buffer y = upload({nan, 1, nan, 2});
  const std::vector<float> z = read(value(run(*program, {&x, &y})), 4);
  CHECK(std::isnan(z[0]));
  CHECK(std::isnan(z[1]));
  CHECK(std::isnan(z[2]));
  CHECK(z[3] == 2);
}

TEST_CASE("events: callbacks, moves, and none at all") {
  const Buffer x = upload({1, 2, 3, 4});
  std::atomic<bool> called = false;
  {
    Event event = value(x.ready());
    Event moved = std::move(event);
    CHECK(!event);
    check(moved.on_ready([&called](const Status& status) { called = status.ok(); }));
  }
  CHECK(comes_true(called));
  bool at_once = false;
  check(Event().on_ready([&at_once](const Status& status) { at_once = status.ok(); }));
  CHECK(at_once);
  CHECK(Event().ready());
  CHECK(Event().await().ok());
}

}  // namespace tpu::pjrt
