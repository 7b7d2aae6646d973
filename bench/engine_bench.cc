// What one operator costs in C++, beside the floor: PJRT's own launch, and the making of a tensor.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "aten/cell.h"
#include "aten/errors.h"
#include "aten/registration.h"
#include "hlo/builder.h"
#include "runtime/device.h"
#include "runtime/program.h"
#include "runtime/region.h"

namespace {

using tpu::aten::check;
using tpu::runtime::Mode;
using tpu::runtime::Region;

// The plugin is TORCH_TPU_PLUGIN; launches run on the calling thread, as torch_tpu asks of the plugin that can.
tpu::runtime::Device& device() {
  static tpu::runtime::Device* const device = [] {
    const char* plugin = std::getenv("TORCH_TPU_PLUGIN");
    if (plugin == nullptr) {
      std::fprintf(stderr, "tpu_bench: set TORCH_TPU_PLUGIN to the path of a PJRT plugin\n");
      std::exit(2);
    }
    tpu::aten::register_operators();
    tpu::pjrt::Options options{{"cpu_device_count", int64_t{1}}};
    if (std::string_view(plugin).find("lammps") != std::string_view::npos) options["asynchronous"] = false;
    tpu::runtime::Device::configure({plugin, options});
    return check(tpu::runtime::Device::get());
  }();
  return *device;
}

at::Tensor ones() {
  device();
  return at::ones({16, 16}, at::TensorOptions().device(at::kPrivateUse1));
}

void set_mode(Mode mode) {
  device();
  check(Region::current().set_mode(mode));
}

void pjrt_add(benchmark::State& state) {
  tpu::hlo::Builder b;
  const tpu::hlo::Type type{tpu::DType::kF32, {16, 16}};
  const auto x = b.parameter(type), y = b.parameter(type);
  const auto text = b.finish("add", {b.add(x, y)});
  const auto program = check(device().client().compile(text, device().compile_options()));
  set_mode(Mode::kStrict);
  const at::Tensor one = ones();
  PJRT_Buffer* const buffer = tpu::aten::cell_of(*one.unsafeGetTensorImpl()).value->buffer().get();
  PJRT_Buffer* const arguments[] = {buffer, buffer};
  for (auto _ : state) {
    tpu::pjrt::Buffer out;
    check(program->execute(arguments, {}, &out));
  }
}
BENCHMARK(pjrt_add);

void make_tensor(benchmark::State& state) {
  device();
  const auto* type = tpu::hlo::intern({tpu::DType::kF32, {16, 16}});
  for (auto _ : state) {
    benchmark::DoNotOptimize(tpu::aten::make_tensor(tpu::runtime::ValuePtr::make(type), type, at::kFloat));
  }
}
BENCHMARK(make_tensor);

void strict_add(benchmark::State& state) {
  set_mode(Mode::kStrict);
  const at::NoGradGuard no_grad;
  const at::Tensor x = ones(), y = ones();
  (void)(x + y);  // compiles
  for (auto _ : state) benchmark::DoNotOptimize(x + y);
}
BENCHMARK(strict_add);

// Nobody keeps the sums, so the cut has nothing to launch.
void record_add(benchmark::State& state) {
  set_mode(Mode::kDefer);
  const at::NoGradGuard no_grad;
  const at::Tensor x = ones(), y = ones();
  (void)(x + y);  // makes the plan
  check(Region::current().cut());
  int recorded = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(x + y);
    if (++recorded % 100 == 0) check(Region::current().cut());
  }
  check(Region::current().cut());
  set_mode(Mode::kStrict);
}
BENCHMARK(record_add);

// What a cut asks the memory tier: the program of what was recorded, here one operator.
void program_lookup(benchmark::State& state) {
  set_mode(Mode::kStrict);
  const at::NoGradGuard no_grad;
  const at::Tensor x = ones(), y = ones();
  set_mode(Mode::kDefer);
  const at::Tensor z = x + y;
  const std::array<uint32_t, 1> live{0};
  {
    Region& region = Region::current();
    const std::lock_guard lock(region.mutex);
    check(region.compile_locked(live, {}));
    for (auto _ : state) benchmark::DoNotOptimize(check(region.compile_locked(live, {})));
  }
  set_mode(Mode::kStrict);
}
BENCHMARK(program_lookup);

void cpu_add(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::ones({16, 16}), y = at::ones({16, 16});
  for (auto _ : state) benchmark::DoNotOptimize(x + y);
}
BENCHMARK(cpu_add);

}  // namespace
