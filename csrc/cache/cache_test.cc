#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/store.h"

namespace tpu::cache {
namespace {

namespace fs = std::filesystem;

struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "torch_tpu_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Scratch() { fs::remove_all(path); }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

std::unique_ptr<Directory> open(const Scratch& scratch, int64_t budget = 1 << 20) {
  auto made = Directory::open(scratch.path, budget);
  REQUIRE(made.ok());
  return std::move(*made);
}

const Fingerprint kKey{1, 2, 3};

TEST_CASE("an entry gives back what it was made of, and nothing once a bit of it has changed") {
  const std::string program = "module {}", executable = std::string(300, 'x') + "\0y";
  const std::string bytes = encode(kKey, program, executable);
  const auto whole = decode(bytes, kKey, program);
  REQUIRE(whole.ok());
  CHECK(*whole == executable);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ (1 << (i % 8)));
    CHECK_FALSE(decode(other, kKey, program).ok());
    CHECK_FALSE(decode(bytes.substr(0, i), kKey, program).ok());
  }
  CHECK_FALSE(decode(bytes + "z", kKey, program).ok());
}

TEST_CASE("keys that collide are told apart by the program") {
  const std::string bytes = encode(kKey, "module {a}", "code of a");
  CHECK_FALSE(decode(bytes, kKey, "module {b}").ok());
  CHECK_FALSE(decode(bytes, kKey, "module {ab").ok());
  CHECK_FALSE(decode(bytes, {1, 2, 4}, "module {a}").ok());
}

TEST_CASE("a directory of others, or for others, is refused") {
  const Scratch scratch;
  chmod(scratch.path.c_str(), 0777);
  const auto refused = Directory::open(scratch.path, 1);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("other users") != std::string::npos);
  std::ofstream(scratch.path / "file") << "x";
  CHECK_FALSE(Directory::open(scratch.path / "file", 1).ok());
  const auto made = Directory::open(scratch.path / "a" / "b", 1);
  REQUIRE(made.ok());
  struct stat info;
  stat((scratch.path / "a" / "b").c_str(), &info);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("entries are read back, replaced and removed; what is no entry stays") {
  const Scratch scratch;
  const auto directory = open(scratch);
  std::ofstream(scratch.path / "note") << "of the user";
  CHECK_FALSE((*directory->read(kKey)).has_value());
  CHECK(directory->write(kKey, "one").ok());
  CHECK(directory->write(kKey, "two").ok());
  CHECK(**directory->read(kKey) == "two");
  CHECK(scratch.files() == 2);
  directory->remove(kKey);
  CHECK_FALSE((*directory->read(kKey)).has_value());
  CHECK(fs::exists(scratch.path / "note"));
}

TEST_CASE("over its budget, a directory loses what was not used for longest") {
  const Scratch scratch;
  const auto directory = open(scratch, 1000);
  const std::string bytes(300, 'x');
  for (uint64_t i = 0; i < 3; ++i) {
    CHECK(directory->write({i, 0, 0}, bytes).ok());
    usleep(20000);
  }
  CHECK((*directory->read({0, 0, 0})).has_value());  // used now
  usleep(20000);
  CHECK(directory->write({3, 0, 0}, bytes).ok());
  CHECK((*directory->read({0, 0, 0})).has_value());
  CHECK_FALSE((*directory->read({1, 0, 0})).has_value());
  CHECK((*directory->read({3, 0, 0})).has_value());
}

TEST_CASE("a link in place of an entry is not followed") {
  const Scratch scratch;
  const auto directory = open(scratch);
  std::ofstream(scratch.path / "elsewhere") << "x";
  fs::create_symlink(scratch.path / "elsewhere", scratch.path / (kKey.hex() + ".entry"));
  CHECK_FALSE(directory->read(kKey).ok());
}

TEST_CASE("a store drops what is damaged, and misses where its directory is gone") {
  const Scratch scratch;
  set_warning_sink([](const std::string&) {});
  const Store store(open(scratch));
  store.keep(kKey, "program", "code");
  CHECK(store.find(kKey, "program") == "code");
  std::ofstream(scratch.path / (kKey.hex() + ".entry")) << "nonsense";
  CHECK_FALSE(store.find(kKey, "program").has_value());
  CHECK(scratch.files() == 0);
  fs::remove_all(scratch.path);
  store.keep(kKey, "program", "code");
  CHECK_FALSE(store.find(kKey, "program").has_value());
  CHECK_FALSE(Store(nullptr).find(kKey, "program").has_value());
  set_warning_sink(nullptr);
}

}  // namespace
}  // namespace tpu::cache
