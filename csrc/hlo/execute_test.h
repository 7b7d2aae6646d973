// For tests: runs what the builder writes, on the plugin that TORCH_TPU_PLUGIN names, and compares with numbers known
// beforehand.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "hlo/builder.h"
#include "pjrt/pjrt.h"

namespace tpu::hlo::execute {

using V = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
T value(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  return std::move(*result);
}

inline void check(const Status& status) { REQUIRE_MESSAGE(status.ok(), status.message()); }

inline const pjrt::Client& client() {
  static const std::unique_ptr<pjrt::Client> one = [] {
    const char* path = std::getenv("TORCH_TPU_PLUGIN");
    REQUIRE_MESSAGE(path != nullptr, "set TORCH_TPU_PLUGIN to the path of a CPU PJRT plugin (.so)");
    return value(pjrt::Client::create(*value(pjrt::Plugin::load(path)), {}));
  }();
  return *one;
}

struct Input {
  DType dtype;
  Dims dims;
  V elements;
  // Integers travel as they are (fastatomstruct's XLA crashes on bit operations of two values that were narrowed in
  // the program), all others as f64, converted in the program.
  DType travels() const { return is_int(dtype) ? dtype : DType::kF64; }
};

inline pjrt::Buffer upload(const Input& in) {
  std::string bytes;
  for (double v : in.elements) {
    const auto i = static_cast<int64_t>(v);  // little-endian: the low bytes are the narrow integer
    bytes.append(is_int(in.dtype) ? reinterpret_cast<const char*>(&i) : reinterpret_cast<const char*>(&v),
                 static_cast<size_t>(size_of(in.travels())));
  }
  return value(client().upload(bytes.data(), in.travels(), in.dims, 0, pjrt::HostBuffer::kCopyNow));
}

// All results one after the other; of a complex one the real parts, then the imaginary ones.
inline V run(const std::vector<Input>& inputs, const std::function<Values(Builder&, const Values&)>& program) {
  Builder b;
  Values parameters, arguments, results;
  for (const Input& in : inputs) parameters.push_back(b.parameter({in.travels(), in.dims}));
  for (size_t i = 0; i < inputs.size(); ++i) arguments.push_back(b.convert(parameters[i], inputs[i].dtype));
  for (const Value& v : program(b, arguments)) {
    results.push_back(b.convert(v, DType::kF64));
    if (is_complex(v.dtype())) results.push_back(b.convert(b.imag(v), DType::kF64));
  }
  pjrt::CompileOptions options;
  options.overrides["xla_cpu_enable_fast_min_max"] = false;
  const std::string text = b.finish("test", results);
  CAPTURE(text);
  const auto executable = value(client().compile(text, options.serialize()));
  std::vector<pjrt::Buffer> buffers, outputs(results.size());
  std::vector<PJRT_Buffer*> raw;
  for (const Input& in : inputs) {
    buffers.push_back(upload(in));
    raw.push_back(buffers.back().get());
  }
  check(executable->execute(raw, {}, outputs.data()));
  V all;
  for (size_t i = 0; i < results.size(); ++i) {
    V part(static_cast<size_t>(results[i].numel()));
    check(value(outputs[i].to_host(part.data(), part.size() * sizeof(double))).await());
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// For one operand in [n].
inline V run(DType dtype, const V& x, const std::function<Values(Builder&, Value)>& program) {
  const Dims dims = {static_cast<int64_t>(x.size())};
  return run({{dtype, dims, x}}, [&](Builder& b, const Values& v) { return program(b, v[0]); });
}

inline void same(const V& got, const V& want, double tolerance = 0) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (std::isnan(want[i])) {
      CHECK(std::isnan(got[i]));
    } else if (tolerance == 0 || std::isinf(want[i])) {
      CHECK(got[i] == want[i]);
    } else {
      CHECK(std::abs(got[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i])));
    }
  }
}

inline V operator+(V a, const V& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline V range(int64_t n) {
  V v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(i));
  return v;
}

}  // namespace tpu::hlo::execute
