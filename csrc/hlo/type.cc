#include "hlo/type.h"

#include <mutex>
#include <unordered_set>

#include "base/hash.h"

namespace tpu::hlo {
namespace {

struct HashType {
  size_t operator()(const Type& type) const {
    uint64_t h = static_cast<uint64_t>(type.dtype);
    for (int64_t d : type.dims) h = mix(h, static_cast<uint64_t>(d));
    return h;
  }
};

}  // namespace

std::string Type::str() const {
  std::string s = "tensor<";
  for (int64_t d : dims) s.append(std::to_string(d)).append("x");
  return s.append(mlir_name(dtype)).append(">");
}

const Type* intern(const Type& type) {
  // Never freed: interned types outlive every static object that may hold one. Elements of a node-based set stay put.
  static auto& mutex = *new std::mutex;
  static auto& types = *new std::unordered_set<Type, HashType>;
  std::lock_guard lock(mutex);
  return &*types.insert(type).first;
}

}  // namespace tpu::hlo
