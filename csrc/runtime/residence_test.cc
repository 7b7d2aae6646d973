#include "runtime/residence.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "hlo/execute_test.h"

namespace tpu::runtime {
namespace {

std::unique_ptr<const pjrt::Executable> compile() {
  static const std::string options = pjrt::CompileOptions().serialize();
  return hlo::execute::value(hlo::execute::client().compile(
      "module {\nfunc.func @main() -> tensor<f32> {\n %c = stablehlo.constant dense<3.0> : tensor<f32>\n"
      " return %c : tensor<f32>\n}\n}",
      options));
}

float run(const Residence::Use& executable) {
  pjrt::Buffer out;
  hlo::execute::check(executable->execute({}, {}, &out));
  float result = 0;
  hlo::execute::check(hlo::execute::value(out.to_host(&result, sizeof(result))).await());
  return result;
}

struct Budget {
  const int64_t before = Residence::figures().budget;
  explicit Budget(int64_t bytes) { Residence::set_budget(bytes); }
  ~Budget() { Residence::set_budget(before); }
};

TEST_CASE("beyond the budget the least recently used go, never one in use") {
  const Budget budget(1000);
  const Residence::Figures before = Residence::figures();
  std::vector<Residence> all(4);
  CHECK_FALSE(all[0].use());
  for (size_t i = 0; i < 3; ++i) CHECK(run(all[i].put(compile(), 300)) == 3);
  CHECK(Residence::figures().bytes == before.bytes + 900);
  CHECK(run(all[0].use()) == 3);
  {
    const Residence::Use held = all[1].use();
    all[0].use();
    (void)all[3].put(compile(), 300);
    CHECK_FALSE(all[2].use());  // the oldest is in use
    CHECK(run(held) == 3);
  }
  CHECK(all[3].use());
  CHECK(Residence::figures().bytes <= before.bytes + 1000);
  CHECK(Residence::figures().dropped > before.dropped);
  Residence::set_budget(1);
  for (const Residence& r : all) CHECK_FALSE(r.use());
  const Residence::Use larger = all[0].put(compile(), 5000);
  CHECK(run(larger) == 3);
  CHECK(run(all[0].put(compile(), 5000)) == 3);  // there is one: it stays
  CHECK(Residence::figures().bytes == before.bytes + 5000);
}

TEST_CASE("what is destroyed is in no account") {
  const Residence::Figures before = Residence::figures();
  {
    Residence one;
    (void)one.put(compile(), 300);
    CHECK(Residence::figures().programs == before.programs + 1);
  }
  CHECK(Residence::figures().programs == before.programs);
  CHECK(Residence::figures().bytes == before.bytes);
}

TEST_CASE("threads use, drop and make again what others use") {
  const Budget budget(700);
  std::vector<Residence> all(5);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 60; ++i) {
        Residence& r = all[(i * (t + 1)) % all.size()];
        Residence::Use use = r.use();
        if (!use) use = r.put(compile(), 300);
        wrong += run(use) != 3;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace tpu::runtime
