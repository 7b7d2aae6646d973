// Where errors from below become PyTorch exceptions.
#pragma once

#include "aten/pch.h"
#include "base/status.h"

namespace tpu::aten {

// Throws the exception that PyTorch users expect for `status`; returns where it is ok.
void check(const Status& status);
[[noreturn]] void raise(const Status& status);

template <typename T>
T check(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(*result);
}

}  // namespace tpu::aten
