// Finds what was made for a request, by its folded key, and compares on every hit. Nothing leaves it.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "cache/testing.h"
#include "runtime/program.h"

namespace tpu::runtime {

// T is a Request, and made from one.
template <typename T>
class ByRequest {
 public:
  // Also whether it was there.
  std::pair<T&, bool> find_or_add(const Key& key, const Recording& recording, std::span<const uint32_t> live,
                                  std::span<const uint32_t> given) {
    const uint64_t hash = cache::truncated(with_ends(mix(key.structure, key.dimensions), live, given));
    const std::lock_guard lock(mutex_);
    auto [at, end] = made_.equal_range(hash);
    for (; at != end; ++at) {
      T& t = *at->second;
      if (std::ranges::equal(live, t.live) && std::ranges::equal(given, t.given) && t.recording == recording) {
        return {t, true};
      }
    }
    Request request{key, recording, {live.begin(), live.end()}, {given.begin(), given.end()}};
    return {*made_.emplace(hash, std::make_unique<T>(std::move(request)))->second, false};
  }

 private:
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::unique_ptr<T>> made_;
};

}  // namespace tpu::runtime
