// Where errors from below become PyTorch exceptions.
#pragma once

#include "aten/pch.h"
#include "base/status.h"
#include "runtime/device.h"

namespace tpu::aten {

// Throws the exception that PyTorch users expect for `status`; returns where it is ok.
void check(const Status& status);
[[noreturn]] void raise(const Status& status);

// Throws in a fork of a process that had started the device. Called first by all that takes a lock: a thread that is
// not in this process may hold it.
[[noreturn]] void raise_fork();
inline void refuse_fork() {
  if (runtime::Device::forked()) [[unlikely]]
    raise_fork();
}

template <typename T>
T check(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(*result);
}

}  // namespace tpu::aten
