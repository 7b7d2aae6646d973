#include "runtime/remake.h"

#include <doctest/doctest.h>

namespace tpu::runtime {
namespace {

constexpr int64_t kLarge = 1 << 20;
using Again = std::vector<std::vector<uint32_t>>;

const hlo::Call* call(std::string_view name, size_t operands, bool quick, int64_t n = kLarge) {
  hlo::Call c;
  c.name = name;
  c.quick = quick;
  c.operands.assign(operands, hlo::intern({DType::kF32, {n}}));
  c.results = {hlo::intern({DType::kF32, {n}})};
  return hlo::intern(std::move(c));
}

// A forward pass of products and what follows each of them, and a backward pass, of a piece each.
struct Passes {
  Recording recording;
  Key key;
  std::vector<std::vector<uint32_t>> pieces;

  Ref input() {
    recording.inputs.push_back(hlo::intern({DType::kF32, {kLarge}}));
    return {Ref::kInput, static_cast<uint32_t>(recording.inputs.size() - 1)};
  }
  Ref node(const hlo::Call* c, std::vector<Ref> operands) {
    pieces.back().push_back(static_cast<uint32_t>(recording.nodes.size()));
    return {Ref::kResult, append(recording, key, c, operands)};
  }
  void piece() { pieces.emplace_back(); }
  Again again(std::vector<uint32_t> live = {}, std::vector<uint32_t> given = {}) const {
    return to_make_again(recording, pieces, live, given);
  }
};

const hlo::Call* product() { return call("product", 1, false); }
const hlo::Call* gelu(int64_t n = kLarge) { return call("gelu", 1, true, n); }

struct Layers : Passes {
  std::vector<Ref> products, activations;
  explicit Layers(bool needs_product = true, const hlo::Call* activation = gelu(), bool through_a_view = false) {
    Ref x = input();
    for (int layer = 0; layer < 3; ++layer) {
      piece();
      products.push_back(node(product(), {x}));
      const Ref y = through_a_view ? node(call("view.read", 1, false), {products.back()}) : products.back();
      activations.push_back(x = node(activation, {y}));
    }
    for (int layer = 3; layer-- > 0;) {
      piece();
      std::vector<Ref> operands{x, activations[layer]};
      if (needs_product) operands.push_back(products[layer]);
      x = node(call("backward", operands.size(), false), operands);
    }
  }
};

}  // namespace

TEST_CASE("remake: what a later pass reads is made again from what it has, unless it comes at once") {
  const Layers m;
  CHECK(m.again() == Again{{}, {}, {}, {}, {m.activations[1].index()}, {m.activations[0].index()}});
}

TEST_CASE("remake: nothing is kept for it") { CHECK(Layers(false).again() == Again(6)); }

TEST_CASE("remake: neither what takes time, nor what is small") {
  CHECK(Layers(true, call("slow", 1, false)).again() == Again(6));
  CHECK(Layers(true, gelu(100)).again() == Again(6));
}

TEST_CASE("remake: what somebody holds is there, and need not be made") {
  const Layers m;
  CHECK(m.again({m.activations[0].index()}) == Again{{}, {}, {}, {}, {m.activations[1].index()}, {}});
}

TEST_CASE("remake: also through views") {
  const Layers m(true, gelu(), true);
  const uint32_t a = m.activations[1].index(), b = m.activations[0].index();
  CHECK(m.again() == Again{{}, {}, {}, {}, {a - 1, a}, {b - 1, b}});
}

TEST_CASE("remake: of inputs, those are there that the region does not hold alone, or that are read until then") {
  Passes m;
  const Ref held = m.input(), given = m.input();
  m.piece();
  const Ref of_held = m.node(gelu(), {held}), of_given = m.node(gelu(), {given});
  for (int i = 0; i < 3; ++i) {
    m.piece();
    m.node(product(), {m.input()});
  }
  m.piece();
  m.node(call("backward", 2, false), {of_held, of_given});
  CHECK(m.again({}, {1}).back() == std::vector<uint32_t>{of_held.index()});
  m.node(product(), {given});
  CHECK(m.again({}, {1}).back() == std::vector<uint32_t>{of_held.index(), of_given.index()});
}

TEST_CASE("remake: what many read is kept") {
  Passes m;
  const Ref mask_of = m.input();
  m.piece();
  const Ref mask = m.node(gelu(), {mask_of});
  for (int i = 0; i < 12; ++i) {
    m.piece();
    m.node(product(), {i % 3 == 2 ? mask : mask_of});
  }
  CHECK(m.again() == Again(13));
}

}  // namespace tpu::runtime
