// Options and attributes: a name and one of five kinds of value.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "pjrt/c_api.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {

// Point into `options`.
std::vector<PJRT_NamedValue> named_values(const Options& options);

// As text, for people.
std::map<std::string, std::string> text_of(std::span<const PJRT_NamedValue> values);

}  // namespace tpu::pjrt
