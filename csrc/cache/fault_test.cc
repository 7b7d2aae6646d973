// Writers that are killed, places that are full.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <random>

#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/scratch_test.h"

namespace tpu::cache {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kKeys = 5;

std::string code_of(uint64_t key, size_t size) { return std::string(size, static_cast<char>('a' + key)); }

// Every entry that is there is whole.
size_t whole_entries(const fs::path& path) {
  size_t count = 0;
  for (const auto& file : fs::directory_iterator(path)) {
    if (file.path().extension() != ".entry") continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    CHECK(verify(bytes).ok());
    ++count;
  }
  return count;
}

TEST_CASE("writers killed at 500 random moments leave whole entries") {
  const Scratch scratch;
  std::minstd_rand chance(7);
  size_t most = 0;
  for (int i = 0; i < 500; ++i) {
    const unsigned seed = static_cast<unsigned>(chance());
    const pid_t writer = child([&] {
      std::minstd_rand of_child(seed);
      auto directory = Directory::open(scratch.path, 1 << 20);
      while (directory.ok()) {
        const uint64_t key = of_child() % kKeys;
        const std::string code = code_of(key, 1 + of_child() % 20000);
        (void)(*directory)->write({key, 0, 0}, encode({key, 0, 0}, {}, "program", code));
      }
      return 0;
    });
    usleep(static_cast<useconds_t>(chance() % 1500));
    kill(writer, SIGKILL);
    CHECK(ended(writer) == -SIGKILL);
    most = std::max(most, whole_entries(scratch.path));
  }
  CHECK(most == kKeys);
  auto directory = Directory::open(scratch.path, 1 << 20);
  REQUIRE(directory.ok());
  for (uint64_t key = 0; key < kKeys; ++key) {
    const auto bytes = (*directory)->read({key, 0, 0});
    REQUIRE((bytes.ok() && *bytes));
    const auto code = decode(**bytes, {key, 0, 0}, "program");
    REQUIRE(code.ok());
    CHECK(*code == code_of(key, code->size()));
  }
}

TEST_CASE("what does not fit is an error, and leaves the older entry") {
  const Scratch scratch;
  const pid_t writer = child([&] {
    auto directory = Directory::open(scratch.path, 1 << 20);
    if (!directory.ok() || !(*directory)->write({1, 2, 3}, "small").ok()) return 1;
    signal(SIGXFSZ, SIG_IGN);
    const rlimit most{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &most);
    if ((*directory)->write({1, 2, 3}, std::string(5000, 'x')).ok()) return 2;
    const auto bytes = (*directory)->read({1, 2, 3});
    return bytes.ok() && *bytes && **bytes == "small" ? 0 : 3;
  });
  CHECK(ended(writer) == 0);
  CHECK(scratch.files() == 1);
}

}  // namespace
}  // namespace tpu::cache
