#include "base/status.h"

#include <doctest/doctest.h>

#include <memory>

namespace tpu {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return invalid("odd");
  return x / 2;
}

Result<int> quarter(int x) {
  TPU_ASSIGN(const int h, half(x));
  TPU_ASSIGN(const int q, half(h));
  return q;
}

Status divisible_by_four(int x) {
  TPU_RETURN_IF_ERROR(quarter(x).status().within("quarter"));
  return {};
}

}  // namespace

TEST_CASE("status: ok is empty, an error is shared by its copies") {
  const Status ok;
  CHECK(ok.ok());
  CHECK(ok.code() == Code::kOk);
  CHECK(ok.message().empty());
  CHECK(ok.within("here").ok());

  const Status error = internal("broken");
  const Status copy = error;
  CHECK(copy.code() == Code::kInternal);
  CHECK(&copy.message() == &error.message());
  CHECK(error.within("launch").message() == "launch: broken");
  CHECK(error.within("launch").code() == Code::kInternal);
}

TEST_CASE("status: the macros hand on values and errors") {
  CHECK(*quarter(12) == 3);
  CHECK(quarter(6).status().message() == "odd");
  CHECK(divisible_by_four(8).ok());
  CHECK(divisible_by_four(6).message() == "quarter: odd");
  CHECK(divisible_by_four(6).code() == Code::kInvalidArgument);
}

TEST_CASE("result: holds what can only be moved") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  REQUIRE(result.ok());
  const std::unique_ptr<int> taken = std::move(*result);
  CHECK(*taken == 5);
}

}  // namespace tpu
