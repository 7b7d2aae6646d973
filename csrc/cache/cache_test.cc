#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/scratch_test.h"
#include "cache/store.h"

namespace tpu::cache {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Directory> open(const Scratch& scratch, int64_t budget = 1 << 20) {
  auto made = Directory::open(scratch.path, budget);
  REQUIRE(made.ok());
  return std::move(*made);
}

const Fingerprint kKey{1, 2, 3};
const About kAbout{"aten::add", "a plugin"};

TEST_CASE("an entry gives back what it was made of, and nothing once a bit of it has changed") {
  const std::string program = "module {}", executable = std::string(300, 'x') + "\0y";
  const std::string bytes = encode(kKey, kAbout, program, executable);
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

TEST_CASE("the first bytes of an entry say what it is") {
  const About longest{std::string(5000, 'n'), std::string(5000, 'm')};
  for (const About& about : {kAbout, longest}) {
    const std::string bytes = encode(kKey, about, std::string(9000, 'p'), "code");
    CHECK(verify(bytes).ok());
    const auto label = read_label(std::string_view(bytes).substr(0, kLabelSize));
    REQUIRE(label.ok());
    CHECK(label->key == kKey);
    CHECK(about.name.starts_with(label->about.name));
    CHECK(about.made_by.starts_with(label->about.made_by));
    CHECK_FALSE(label->about.name.empty());
    CHECK(label->program_size == 9000);
    CHECK(label->executable_size == 4);
  }
  const std::string bytes = encode(kKey, kAbout, "program", "code");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 1);
    CHECK_FALSE(verify(other).ok());
    (void)read_label(other);  // may say anything, and reads nothing that is not there
    (void)read_label(bytes.substr(0, i));
  }
}

TEST_CASE("keys that collide are told apart by the program") {
  const std::string bytes = encode(kKey, kAbout, "module {a}", "code of a");
  CHECK_FALSE(decode(bytes, kKey, "module {b}").ok());
  CHECK_FALSE(decode(bytes, kKey, "module {ab").ok());
  CHECK_FALSE(decode(bytes, {1, 2, 4}, "module {a}").ok());
  CHECK(decode(bytes, kKey, "module {b}").status().code() == Code::kNotFound);  // nothing is wrong with it
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

std::optional<std::string> find(const Store& store, std::string_view program) {
  Search search(store, kKey, program);
  const auto found = search.next();
  return found ? std::optional(found->executable) : std::nullopt;
}

TEST_CASE("a store drops what is damaged, and misses where its directory is gone") {
  const Scratch scratch;
  set_warning_sink([](const std::string&) {});
  const Store store(open(scratch));
  const auto keep = [&] { Search(store, kKey, "program").keep(kAbout, "code"); };
  keep();
  CHECK(find(store, "program") == "code");
  std::ofstream(scratch.path / (kKey.hex() + ".entry")) << "nonsense";
  CHECK_FALSE(find(store, "program").has_value());
  CHECK(scratch.files() == 0);
  keep();
  CHECK_FALSE(find(store, "another program").has_value());  // the same key, and nothing wrong with the entry
  CHECK(find(store, "program") == "code");
  {
    Search search(store, kKey, "program");
    REQUIRE(search.next().has_value());
    search.reject();
    CHECK_FALSE(search.next().has_value());
  }
  CHECK(scratch.files() == 0);
  fs::remove_all(scratch.path);
  keep();
  CHECK_FALSE(find(store, "program").has_value());
  CHECK_FALSE(find(Store(nullptr), "program").has_value());
  set_warning_sink(nullptr);
}

TEST_CASE("an entry made with other options is a miss, even under the same key") {
  const Scratch scratch;
  Store store(open(scratch));
  setenv("TORCH_TPU_SHARED_DIR", "", 1);
  store.set_options("of one compiler");
  Search(store, kKey, "program").keep(kAbout, "code");
  CHECK(find(store, "program") == "code");
  store.set_options("of another");
  CHECK_FALSE(find(store, "program").has_value());
  unsetenv("TORCH_TPU_SHARED_DIR");
}

}  // namespace
}  // namespace tpu::cache
