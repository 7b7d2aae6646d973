#include "runtime/mappings.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

namespace tpu::runtime {

int64_t Mappings::count() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

int64_t Mappings::three_quarters_of_limit() {
  int64_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit > 0 ? limit / 4 * 3 : std::numeric_limits<int64_t>::max();
}

bool Mappings::full(int64_t programs) {
  constexpr int64_t kMostOfOneProgram = 128;
  if (programs < count_at_) return false;
  const int64_t left = most_ - count();
  count_at_ = left < 0 ? 0 : programs + left / kMostOfOneProgram;
  return left < 0;
}

}  // namespace tpu::runtime
