#include "runtime/novelty.h"

#include <doctest/doctest.h>

#include <deque>

using tpu::runtime::Line;
using tpu::runtime::Node;
using tpu::runtime::Novelty;

namespace {

// Regions of ten nodes; equal numbers are equal calls.
class Stream {
 public:
  bool comes(uint64_t structure, size_t first_call, Line at = {}) {
    std::vector<Node> nodes;
    for (size_t i = 0; i < 10; ++i) nodes.push_back({&call(first_call + i), 0, 0});
    return novelty_.is_worth_a_program(structure, nodes, at);
  }

 private:
  const tpu::hlo::Call& call(size_t i) {
    while (calls_.size() <= i) calls_.emplace_back();
    return calls_[i];
  }
  Novelty novelty_;
  std::deque<tpu::hlo::Call> calls_;
};

}  // namespace

TEST_CASE("a region that comes again is a program") {
  Stream stream;
  for (int i = 0; i < 100; ++i) CHECK(stream.comes(1, 0));
}

TEST_CASE("regions of new calls are programs, however many come") {
  Stream stream;
  for (size_t i = 0; i < 100; ++i) CHECK(stream.comes(i, 10 * i));
}

TEST_CASE("calls put together anew each time are soon launched one by one") {
  Stream stream;
  CHECK(stream.comes(0, 0));
  for (size_t i = 1; i <= Novelty::kNewInARow; ++i) CHECK(stream.comes(i, 0));
  for (size_t i = 10; i < 100; ++i) CHECK_FALSE(stream.comes(i, 0));
  CHECK(stream.comes(1, 0));  // what is a program stays one
}

TEST_CASE("of such a stream what comes often is a program after all") {
  Stream stream;
  for (size_t i = 0; i < 10; ++i) stream.comes(i, 0);
  for (int times = 1; times < Novelty::kComesBack; ++times) CHECK_FALSE(stream.comes(100, 0));
  for (int i = 0; i < 10; ++i) CHECK(stream.comes(100, 0));
}

TEST_CASE("known regions pay for new ones") {
  Stream stream;
  for (size_t i = 0; i < 10; ++i) stream.comes(i, 0);
  for (int i = 0; i < Novelty::kKnownForNew; ++i) stream.comes(0, 0);
  CHECK(stream.comes(20, 0));
  CHECK_FALSE(stream.comes(21, 0));
}

TEST_CASE("each line has an account of its own") {
  Stream stream;
  const int code = 0;
  for (size_t i = 0; i < 10; ++i) stream.comes(i, 0, {&code, 2});
  CHECK_FALSE(stream.comes(20, 0, {&code, 2}));
  CHECK(stream.comes(21, 0, {&code, 4}));
}
