#include "aten/errors.h"

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

void raise_fork() { raise(runtime::Device::get().status()); }

}  // namespace tpu::aten
