#include "cache/store.h"
#include "cache/testing.h"
#include "cache/warning.h"

namespace tpu::cache {

Search::Search(const Store& store, const Fingerprint& key, std::string_view program)
    : store_(store), key_(truncated(key)), program_(store.on() ? store.options_ + std::string(program) : "") {}

std::optional<Search::Found> Search::in(Entries& entries, Tier tier) {
  auto found = store_.look(entries, key_, program_, &bytes_);
  if (!found) return std::nullopt;
  traffic(from_ = tier).read += static_cast<int64_t>(bytes_.size());
  return Found{std::move(*found), tier};
}

std::optional<Search::Found> Search::next() {
  if (!store_.on()) return std::nullopt;
  const bool shared = store_.shared_ != nullptr && !store_.shared_->left();
  while (stage_ < 4) {
    std::optional<Found> found;
    switch (stage_++) {
      case 0:
        if (shared) found = in(store_.shared_->entries(), Tier::kShared);
        break;
      case 1:  // each for itself: a lease costs more than a file that is there
        if (!store_.remote_) found = in(*store_.lasting_, Tier::kDisk);
        break;
      case 2:  // meanwhile another process may have made it
        if (!shared) break;
        lease_ = store_.shared_->lease(key_);
        found = in(store_.shared_->entries(), Tier::kShared);
        break;
      case 3:
        if (store_.remote_) found = in(*store_.lasting_, Tier::kRemote);
        break;
    }
    if (found) return found;
  }
  return std::nullopt;
}

void Search::accept() {
  // The bytes as they came, since what was loaded must not be serialized. A directory is as near as shared memory.
  if (from_ == Tier::kRemote) share(bytes_);
}

void Search::reject() {
  (from_ == Tier::kShared ? static_cast<Entries&>(store_.shared_->entries()) : *store_.lasting_).remove(key_);
}

void Search::share(std::string_view bytes) {
  if (store_.shared_ == nullptr || store_.shared_->left()) return;
  if (const Status status = store_.shared_->entries().write(key_, bytes); !status.ok()) {
    if (!store_.shared_->left()) warn_once(Warning::kShared, status);
    store_.shared_->leave();
    return;
  }
  traffic(Tier::kShared).written += static_cast<int64_t>(bytes.size());
}

void Search::keep(const About& about, std::string_view executable) {
  if (!store_.on()) return;
  const std::string bytes = encode(key_, about, program_, executable);
  share(bytes);
  if (store_.slow_.load(std::memory_order_relaxed)) return;
  delay_for_tests();
  if (const Status status = store_.lasting_->write(key_, bytes); !status.ok()) {
    warn_once(Warning::kLasting, status);
    return;
  }
  traffic(store_.remote_ ? Tier::kRemote : Tier::kDisk).written += static_cast<int64_t>(bytes.size());
}

void Search::cannot_keep() {
  lease_ = {};
  store_.leave();
}

}  // namespace tpu::cache
