#include "aten/distributions.h"

#include <ATen/native/DistributionTemplates.h>

#include "aten/engine.h"

namespace tpu::aten {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
namespace templates = at::native::templates;

template <typename F>
void for_float(at::ScalarType dtype, F f) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "random", [&] { f(scalar_t{}); });
}

// For floating dtypes moves `from` and `to` inward to numbers that the dtype has.
void check_integers(const at::Tensor& self, int64_t& from, int64_t& to) {
  const at::ScalarType dtype = self.scalar_type();
  TORCH_CHECK(from < to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
  if (at::isFloatingType(dtype)) {
    for_float(dtype, [&](auto zero) {
      from = templates::update_from<decltype(zero)>(from);
      to = templates::update_to<decltype(zero)>(to);
    });
    TORCH_CHECK(from < to,
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=", from,
                " >= to=", to);
  }
  templates::check_from_to_in_range(from, to - 1, self.dtype());
}

void check_uniform(const at::Tensor& self, double from, double to) {
  const at::ScalarType dtype = self.scalar_type();
  TORCH_CHECK(at::isFloatingType(dtype) || at::isComplexType(dtype), "\"check_uniform_bounds\" not implemented for '",
              toString(dtype), "'");
  for_float(c10::toRealValueType(dtype), [&](auto zero) {
    using T = decltype(zero);
    const auto least = static_cast<double>(std::numeric_limits<T>::lowest());
    const auto most = static_cast<double>(std::numeric_limits<T>::max());
    TORCH_CHECK(from >= least && from <= most, "from is out of bounds for ", dtype);
    TORCH_CHECK(to >= least && to <= most, "to is out of bounds for ", dtype);
    TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
    TORCH_CHECK(to - from <= most, "uniform_ expects to-from <= std::numeric_limits<", toString(dtype),
                ">::max(), but found to=", to, " and from=", from, " which result in to-from to exceed the limit");
  });
}

void check_multinomial(const at::Tensor& self, int64_t samples, bool replacement) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= int64_t{1} << 24, "number of categories cannot exceed 2^24");
}

void check_deviation(double std) { TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std); }

using Check = void (*)(c10::IValue* a);

const std::map<std::string, Check>& checks() {
  static const auto* const checks = new std::map<std::string, Check>{
      {"random_",
       [](c10::IValue* a) {
         const at::ScalarType dtype = a[0].toTensor().scalar_type();
         TORCH_CHECK(!at::isComplexType(dtype), "\"random\" not implemented for '", toString(dtype), "'");
       }},
      {"random_.from",
       [](c10::IValue* a) {
         int64_t from = a[1].toInt();
         if (a[2].isNone()) return;
         int64_t to = a[2].toInt();
         check_integers(a[0].toTensor(), from, to);
         a[1] = from, a[2] = to;
       }},
      {"random_.to",
       [](c10::IValue* a) {
         int64_t from = 0, to = a[1].toInt();
         check_integers(a[0].toTensor(), from, to);
         a[1] = to;
       }},
      {"uniform_", [](c10::IValue* a) { check_uniform(a[0].toTensor(), a[1].toDouble(), a[2].toDouble()); }},
      {"normal_", [](c10::IValue* a) { check_deviation(a[2].toDouble()); }},
      {"normal.Tensor_float", [](c10::IValue* a) { check_deviation(a[1].toDouble()); }},
      {"normal.Tensor_float_out", [](c10::IValue* a) { check_deviation(a[1].toDouble()); }},
      {"log_normal_",
       [](c10::IValue* a) {
         const double std = a[2].toDouble();
         TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
       }},
      {"geometric_",
       [](c10::IValue* a) {
         const double p = a[1].toDouble();
         TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
       }},
      {"exponential_",
       [](c10::IValue* a) {
         const double lambda = a[1].toDouble();
         TORCH_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
       }},
      {"cauchy_",
       [](c10::IValue* a) {
         const double sigma = a[2].toDouble();
         const at::Tensor& self = a[0].toTensor();
         TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
         TORCH_CHECK(at::isFloatingType(self.scalar_type()),
                     "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but "
                     "you specified ",
                     self.dtype());
       }},
      {"bernoulli_.float",
       [](c10::IValue* a) {
         const double p = a[1].toDouble();
         TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
       }},
      {"multinomial", [](c10::IValue* a) { check_multinomial(a[0].toTensor(), a[1].toInt(), a[2].toBool()); }},
      {"multinomial.out",
       [](c10::IValue* a) {
         const at::ScalarType out = a[4].toTensor().scalar_type();
         TORCH_CHECK(out == at::kLong, "multinomial expects Long tensor out, got: ", out);
         check_multinomial(a[0].toTensor(), a[1].toInt(), a[2].toBool());
       }},
  };
  return *checks;
}

}  // namespace

void run_distribution(const Overload& overload, torch::jit::Stack* stack) {
  const auto check = checks().find(toString(overload.handle.operator_name()).substr(6));  // without aten::
  TORCH_INTERNAL_ASSERT(check != checks().end());
  check->second(stack->data() + (stack->size() - overload.args.size()));
  run(overload, stack);
}

}  // namespace tpu::aten
