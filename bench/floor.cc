// The floor: a whole training step as one StableHLO program, launched again and again through PJRT, its state given
// back to it. No PyTorch and no Python: less than this takes a better program, not a faster host.
//
// tpu_floor FOLDER answers like worker.py. FOLDER/NAME.mlir is a program (worker.py export wrote it), NAME.inputs its
// parameters, a line each: dtype, dims ("64,784", "-" for none), file of the elements. NAME.about has two numbers: how
// many parameters are the state, which the first as many results replace, and after how many steps the loss, which is
// the last result, is read.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "pjrt/pjrt.h"

namespace {

using tpu::pjrt::Buffer;

[[noreturn]] void die(const std::string& why) {
  std::cerr << "tpu_floor: " << why << std::endl;
  std::exit(2);
}

template <typename T>
T check(tpu::Result<T> result) {
  if (!result.ok()) die(result.status().message());
  return std::move(*result);
}
void check(const tpu::Status& status) {
  if (!status.ok()) die(status.message());
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) die("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Step {
  std::unique_ptr<tpu::pjrt::Executable> program;
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  size_t state = 0;
  int steps = 0;

  void run() {
    std::vector<PJRT_Buffer*> arguments;
    for (const Buffer& b : inputs) arguments.push_back(b.get());
    check(program->execute(arguments, {}, outputs.data()));
    for (size_t i = 0; i < state; ++i) std::swap(inputs[i], outputs[i]);
  }
  float loss() const {
    float value = 0;
    check(check(outputs.back().to_host(&value, sizeof value)).await());
    return value;
  }
};

Step load(const tpu::pjrt::Client& client, const std::string& options, const std::string& folder,
          const std::string& name) {
  Step step;
  step.program = check(client.compile(contents(folder + "/" + name + ".mlir"), options));
  step.outputs.resize(static_cast<size_t>(step.program->num_outputs()));
  std::istringstream about(contents(folder + "/" + name + ".about"));
  about >> step.state >> step.steps;
  std::istringstream lines(contents(folder + "/" + name + ".inputs"));
  for (std::string dtype, dims, file; lines >> dtype >> dims >> file;) {
    std::vector<int64_t> sizes;
    std::istringstream parts(dims == "-" ? "" : dims);
    for (std::string part; std::getline(parts, part, ',');) sizes.push_back(std::stoll(part));
    const std::string bytes = contents(folder + "/" + file);
    const auto type = dtype == "float32" ? tpu::DType::kF32 : dtype == "int32" ? tpu::DType::kS32 : tpu::DType::kU32;
    step.inputs.push_back(check(client.upload(bytes.data(), type, sizes, 0, tpu::pjrt::HostBuffer::kCopyNow)));
  }
  return step;
}

// Seconds of a step: the least disturbed of three.
double measure(Step& step) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int s = 0; s < step.steps; ++s) step.run();
    step.loss();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best / step.steps;
}

}  // namespace

int main(int argc, char** argv) {
  const char* path = std::getenv("TORCH_TPU_PLUGIN");
  if (argc != 2 || path == nullptr) die("usage: TORCH_TPU_PLUGIN=<plugin> tpu_floor FOLDER");
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);
  tpu::pjrt::Options create{{"cpu_device_count", int64_t{1}}};
  if (std::string_view(path).find("lammps") != std::string_view::npos) create["asynchronous"] = false;
  const auto client = check(tpu::pjrt::Client::create(*check(tpu::pjrt::Plugin::load(path)), create));
  // The compiler's own options: the floor is what the plugin can do, not what we ask of it.
  const std::string options = tpu::pjrt::CompileOptions{}.serialize();
  std::map<std::string, Step> steps;
  for (std::string name; std::getline(std::cin, name);) {
    if (name == "versions") {
      std::cout << R"({"versions": {}})" << std::endl;
      continue;
    }
    if (!steps.contains(name)) {
      steps.emplace(name, load(*client, options, argv[1], name));
      for (int i = 0; i < 3; ++i) steps.at(name).run();
    }
    std::cout << R"({"figures": {"seconds": )" << measure(steps.at(name)) << "}}" << std::endl;
  }
}
