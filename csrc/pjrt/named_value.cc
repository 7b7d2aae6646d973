#include "pjrt/named_value.h"

#include <type_traits>

namespace tpu::pjrt {
namespace {

PJRT_NamedValue named_value(const std::string& name, const Option& option) {
  PJRT_NamedValue value = {.struct_size = PJRT_NamedValue_STRUCT_SIZE, .name = name.data(), .name_size = name.size()};
  value.value_size = 1;
  std::visit(
      [&value](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          value.type = PJRT_NamedValue_kString;
          value.string_value = v.data();
          value.value_size = v.size();
        } else if constexpr (std::is_same_v<T, bool>) {
          value.type = PJRT_NamedValue_kBool;
          value.bool_value = v;
        } else if constexpr (std::is_same_v<T, int64_t>) {
          value.type = PJRT_NamedValue_kInt64;
          value.int64_value = v;
        } else if constexpr (std::is_same_v<T, float>) {
          value.type = PJRT_NamedValue_kFloat;
          value.float_value = v;
        } else {
          value.type = PJRT_NamedValue_kInt64List;
          value.int64_array_value = v.data();
          value.value_size = v.size();
        }
      },
      option);
  return value;
}

std::string text_of(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString: return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64: return std::to_string(value.int64_value);
    case PJRT_NamedValue_kFloat: return std::to_string(value.float_value);
    case PJRT_NamedValue_kBool: return value.bool_value ? "true" : "false";
    case PJRT_NamedValue_kInt64List: break;
  }
  std::string list;  // a version in every plugin known: "1.13.0"
  for (size_t i = 0; i < value.value_size; ++i) {
    if (i > 0) list += '.';
    list += std::to_string(value.int64_array_value[i]);
  }
  return list;
}

}  // namespace

std::vector<PJRT_NamedValue> named_values(const Options& options) {
  std::vector<PJRT_NamedValue> values;
  values.reserve(options.size());
  for (const auto& [name, option] : options) values.push_back(named_value(name, option));
  return values;
}

std::map<std::string, std::string> text_of(std::span<const PJRT_NamedValue> values) {
  std::map<std::string, std::string> texts;
  for (const PJRT_NamedValue& value : values) texts.emplace(std::string(value.name, value.name_size), text_of(value));
  return texts;
}

}  // namespace tpu::pjrt
