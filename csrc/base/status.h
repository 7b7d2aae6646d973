// Errors below aten/: one small type, no exceptions. aten/ turns them into PyTorch exceptions in one place.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tpu {

enum class Code : int {
  kOk,
  kInvalidArgument,  // the caller's mistake
  kOutOfRange,       // the same: a dimension or an index that is not there
  kNotFound,         // a file, plugin or symbol is missing
  kUnimplemented,    // the plugin or this build lacks it
  kOutOfMemory,
  kInternal,  // our mistake, or the compiler's
  kUnavailable,
};

// Ok costs one null pointer. Copyable, because one failed launch is reported by each value it should have made.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : error_(std::make_shared<Error>(Error{code, std::move(message)})) {}

  bool ok() const { return error_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : error_->code; }
  const std::string& message() const;
  // The same error with `where: ` in front; ok stays ok.
  Status within(const std::string& where) const;

 private:
  struct Error {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Error> error_;
};

inline Status invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
inline Status internal(std::string message) { return {Code::kInternal, std::move(message)}; }

// A value, or why there is none. Read the value only where ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

#define TPU_RETURN_IF_ERROR(expr)                        \
  do {                                                   \
    if (::tpu::Status status_ = (expr); !status_.ok()) { \
      return status_;                                    \
    }                                                    \
  } while (false)

#define TPU_CONCAT_(a, b) a##b
#define TPU_CONCAT(a, b) TPU_CONCAT_(a, b)
// TPU_ASSIGN(auto x, f()): x is the value of f(), or the error is returned.
#define TPU_ASSIGN(declaration, expr) TPU_ASSIGN_(TPU_CONCAT(result_, __LINE__), declaration, expr)
#define TPU_ASSIGN_(result, declaration, expr) \
  auto result = (expr);                        \
  if (!result.ok()) return result.status();    \
  declaration = std::move(*result)

}  // namespace tpu
