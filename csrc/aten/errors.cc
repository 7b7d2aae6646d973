#include "aten/errors.h"

#include "runtime/device.h"

namespace tpu::aten {

void raise(const Status& status) {
  switch (status.code()) {
    case Code::kOutOfMemory: TORCH_CHECK_WITH(OutOfMemoryError, false, status.message());
    case Code::kOutOfRange: TORCH_CHECK_INDEX(false, status.message());
    case Code::kUnimplemented: TORCH_CHECK_NOT_IMPLEMENTED(false, status.message());
    default: TORCH_CHECK(false, status.message());
  }
  std::abort();  // not reached
}

void check(const Status& status) {
  if (!status.ok()) raise(status);
}

void refuse_fork() {
  if (runtime::Device::forked()) check(runtime::Device::get());
}

}  // namespace tpu::aten
