#include "base/status.h"

namespace tpu {

const std::string& Status::message() const {
  static const std::string* const kNone = new std::string;
  return ok() ? *kNone : error_->message;
}

Status Status::within(const std::string& where) const {
  return ok() ? *this : Status(code(), where + ": " + message());
}

}  // namespace tpu
