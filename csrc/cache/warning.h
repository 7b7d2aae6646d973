// What fails is told once, and works without.
#pragma once

#include "base/status.h"

namespace tpu::cache {

enum class Warning { kLasting, kShared };
void warn_once(Warning which, const Status& status);

}  // namespace tpu::cache
