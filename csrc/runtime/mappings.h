// How many memory mappings the process has. Linux allows 65,530 (vm.max_map_count); on a CPU the code of a program
// takes 3 to 128 of them, and a process without any left dies wherever it next wants memory: in a compiler, in malloc.
#pragma once

#include <cstdint>

namespace tpu::runtime {

class Mappings {
 public:
  Mappings() : Mappings(three_quarters_of_limit()) {}
  explicit Mappings(int64_t most) : most_(most) {}

  // Whether there are more than `most`. Counting takes about 1 us for each, so it is done only when `programs`, the
  // number of them now, has grown by as many as could have taken what was left.
  bool full(int64_t programs);

  // Now; 0 where the system does not tell.
  static int64_t count();

 private:
  static int64_t three_quarters_of_limit();

  int64_t most_;
  int64_t count_at_ = 0;  // programs
};

}  // namespace tpu::runtime
