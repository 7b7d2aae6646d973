// Boxing an argument copies the tensor. Where Python holds its only reference, PyTorch then takes the interpreter's
// lock to tell the Python object of the second one, and again when it goes, which is a sixth of what an op costs. So
// the arguments that the engine sees here are borrowed: IValues that own nothing.
#include "aten/unboxed.h"

#include <array>

#include "aten/engine.h"

namespace tpu::aten {
namespace {

template <typename T>
struct Borrow {
  static c10::IValue in(const T& v) { return v; }
  static void out(c10::IValue&) {}
};
template <>
struct Borrow<at::Tensor> {
  static c10::IValue in(const at::Tensor& t) {
    return at::Tensor(c10::intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>::reclaim(t.unsafeGetTensorImpl()));
  }
  static void out(c10::IValue& v) { (void)std::move(v).toTensor().unsafeReleaseTensorImpl(); }
};

template <typename... Args>
class Borrowed {
 public:
  explicit Borrowed(const Args&... args) : values{Borrow<Args>::in(args)...} {}
  Borrowed(const Borrowed&) = delete;
  ~Borrowed() {
    size_t i = 0;
    (Borrow<Args>::out(values[i++]), ...);
  }
  std::array<c10::IValue, sizeof...(Args)> values;
};

template <typename R>
R returned(Exchange& call) {
  if constexpr (std::is_same_v<R, at::Tensor>) {
    return std::move(call.returns[0]).toTensor();
  } else {
    static_assert(std::is_same_v<R, std::tuple<at::Tensor, at::Tensor>>);
    return {std::move(call.returns[0]).toTensor(), std::move(call.returns[1]).toTensor()};
  }
}

// The type of an argument as a schema prints it; `!`: written.
template <typename T>
constexpr const char* kName = nullptr;
template <>
constexpr const char* kName<const at::Tensor&> = "Tensor";
template <>
constexpr const char* kName<at::Tensor&> = "Tensor!";
template <>
constexpr const char* kName<const at::Scalar&> = "Scalar";
template <>
constexpr const char* kName<int64_t> = "int";
template <>
constexpr const char* kName<bool> = "bool";
template <>
constexpr const char* kName<double> = "float";
template <>
constexpr const char* kName<at::ScalarType> = "ScalarType";
template <>
constexpr const char* kName<std::optional<at::ScalarType>> = "ScalarType?";
template <>
constexpr const char* kName<at::Tensor> = "Tensor";
template <>
constexpr const char* kName<std::tuple<at::Tensor, at::Tensor>> = "Tensor Tensor";

template <typename Signature>
struct Kernel;

template <typename R, typename... Args>
struct Kernel<R(Args...)> {
  const Overload* overload;

  R operator()(Args... args) const {
    const Borrowed<std::decay_t<Args>...> borrowed(args...);
    Exchange call{borrowed.values, {}, !std::is_reference_v<R>};
    run(*overload, call);
    if constexpr (std::is_reference_v<R>) {  // to the one that is written
      return std::get<R>(std::tuple<Args...>(args...));
    } else {
      return returned<R>(call);
    }
  }

  static std::string text() {
    std::string text;
    ((text += kName<Args>, text += ' '), ...);
    return text + "-> " + (std::is_reference_v<R> ? "Tensor" : kName<std::remove_reference_t<R>>);
  }
  static torch::CppFunction make(const Overload& overload) { return torch::CppFunction(Kernel{&overload}); }
};

std::string text_of(const c10::FunctionSchema& schema) {
  std::string text;
  for (const c10::Argument& a : schema.arguments()) {
    text += a.real_type()->str() + (a.alias_info() != nullptr && a.alias_info()->isWrite() ? "! " : " ");
  }
  text += "->";
  for (const c10::Argument& r : schema.returns()) text += " " + r.real_type()->str();
  return text;
}

struct Maker {
  std::string text;
  torch::CppFunction (*make)(const Overload&);
};
template <typename... Signatures>
std::array<Maker, sizeof...(Signatures)> makers() {
  return {Maker{Kernel<Signatures>::text(), &Kernel<Signatures>::make}...};
}

using Tensor = at::Tensor;
using T = const at::Tensor&;
using W = at::Tensor&;
using S = const at::Scalar&;
using Two = std::tuple<at::Tensor, at::Tensor>;

}  // namespace

std::optional<torch::CppFunction> unboxed_kernel(const Overload& overload) {
  static const auto known =
      makers<Tensor(T), Tensor(T, T), Tensor(T, S), Tensor(S, T), Tensor(T, T, S), Tensor(T, S, S), Tensor(T, T, T),
             Tensor(T, T, T, S), Tensor(T, T, T, S, S), Tensor(T, int64_t), Tensor(T, int64_t, bool),
             Tensor(T, T, int64_t), Tensor(T, T, int64_t, at::ScalarType), Tensor(T, std::optional<at::ScalarType>),
             Tensor(T, double), Tensor(T, T, double), Two(T, int64_t, bool),  //
             W(W), W(W, T), W(W, S), W(W, T, S), W(W, S, S), W(W, T, T), W(W, T, T, S), W(W, T, T, S, S), W(T, W),
             W(T, T, W), W(T, S, W), W(T, T, S, W)>();
  const std::string text = text_of(overload.handle.schema());
  for (const Maker& maker : known) {
    if (maker.text == text) return maker.make(overload);
  }
  return std::nullopt;
}

}  // namespace tpu::aten
