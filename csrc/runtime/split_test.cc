#include "runtime/split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tpu::runtime {
namespace {

const hlo::Type* vector_of(int64_t n) { return hlo::intern({DType::kF32, {n}}); }

const hlo::Call* call(std::string_view name, size_t operands, int64_t n = 1 << 16, bool effect = false) {
  hlo::Call c;
  c.name = name;
  c.operands.assign(operands, vector_of(n));
  c.results = {vector_of(n)};
  c.has_effect = effect;
  return hlo::intern(std::move(c));
}

struct Maker {
  Recording recording;
  Key key;
  Ref node(const hlo::Call* c, std::vector<Ref> operands) {
    return {Ref::kResult, append(recording, key, c, operands)};
  }
  Ref input(int64_t n = 1 << 16) {
    recording.inputs.push_back(vector_of(n));
    return {Ref::kInput, static_cast<uint32_t>(recording.inputs.size() - 1)};
  }
};

// Whether the pieces hold every node once, operands before their readers, and effects in line.
void check_order(const Recording& recording, const std::vector<std::vector<uint32_t>>& pieces) {
  std::vector<bool> done(recording.nodes.size());
  std::vector<bool> made(recording.num_results);
  uint32_t effects = 0;
  for (const auto& piece : pieces) {
    REQUIRE_FALSE(piece.empty());
    for (const uint32_t i : piece) {
      REQUIRE(i < done.size());
      REQUIRE_FALSE(done[i]);
      done[i] = true;
      const Node& node = recording.nodes[i];
      for (const Ref ref : recording.operands_of(node)) {
        if (ref.kind() == Ref::kResult) REQUIRE(made[ref.index()]);
      }
      for (size_t r = 0; r < node.call->results.size(); ++r) made[node.first_result + r] = true;
      if (node.call->has_effect) {
        REQUIRE(i >= effects);
        effects = i;
      }
    }
  }
  REQUIRE(std::all_of(done.begin(), done.end(), [](bool d) { return d; }));
}

// What calls a piece is of.
std::vector<const hlo::Call*> calls(const Recording& recording, const std::vector<uint32_t>& piece) {
  std::vector<const hlo::Call*> found;
  for (const uint32_t i : piece) found.push_back(recording.nodes[i].call);
  return found;
}

size_t kinds(const Recording& recording, const std::vector<std::vector<uint32_t>>& pieces) {
  std::set<std::vector<const hlo::Call*>> found;
  for (const auto& piece : pieces) found.insert(calls(recording, piece));
  return found.size();
}

// Layers of 20 nodes over weights of their own, and what stands before and behind.
Maker layers(size_t count) {
  Maker m;
  Ref x = m.node(call("embed", 1), {m.input()});
  for (size_t l = 0; l < count; ++l) {
    const Ref residual = x;
    for (const char* op :
         {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s"})
      x = m.node(call(op, 2), {x, m.input()});
    x = m.node(call("add", 2), {x, residual});
  }
  m.node(call("loss", 1), {x});
  return m;
}

}  // namespace

TEST_CASE("split: a piece for each layer, cut where only the residual goes over") {
  const Maker m = layers(16);
  const auto pieces = split(m.recording);
  check_order(m.recording, pieces);
  CHECK(kinds(m.recording, pieces) <= 3);
  size_t of_a_layer = 0;
  for (const auto& piece : pieces) {
    if (piece.size() != 20) continue;
    ++of_a_layer;
    CHECK(m.recording.nodes[piece.back()].call->name == "add");
  }
  CHECK(of_a_layer >= 15);
}

TEST_CASE("split: the kinds of pieces do not grow with the layers") {
  CHECK(kinds(layers(40).recording, split(layers(40).recording)) ==
        kinds(layers(16).recording, split(layers(16).recording)));
}

TEST_CASE("split: what does not repeat stays whole") {
  Maker m;
  std::mt19937 random(1);
  Ref x = m.input();
  for (int i = 0; i < 400; ++i) x = m.node(call("op", 1, 1 + static_cast<int64_t>(random() % 1000000)), {x});
  CHECK(split(m.recording).size() == 1);
}

TEST_CASE("split: an optimizer's steps over all weights become lanes, each kind once, also in the first step") {
  const auto optimizer = [](bool first) {
    Maker m;
    std::vector<Ref> weights, moments, gradients;
    std::vector<int64_t> sizes;
    Ref norm = m.input();
    for (int i = 0; i < 60; ++i) {
      sizes.push_back(i % 3 == 0 ? 1 << 18 : 1 << 17);
      weights.push_back(m.input(sizes.back()));
      gradients.push_back(m.input(sizes.back()));
      norm = m.node(call("norm", 2), {norm, gradients.back()});
    }
    for (size_t i = 0; i < 60; ++i)
      moments.push_back(first ? m.node(call("zeros", 0, sizes[i]), {}) : m.input(sizes[i]));
    for (const char* op : {"clip", "decay", "moment", "step"}) {
      for (size_t i = 0; i < 60; ++i) {
        Ref& to = *op == 'c' ? gradients[i] : *op == 'm' ? moments[i] : weights[i];
        to = m.node(call(op, 3, sizes[i]), {to, *op == 'c' ? norm : gradients[i], moments[i]});
      }
    }
    return m;
  };
  const Maker first = optimizer(true), later = optimizer(false);
  const auto now = split(first.recording), then = split(later.recording);
  check_order(first.recording, now);
  check_order(later.recording, then);
  const auto lanes = [](const Maker& m, const auto& pieces) {
    std::set<std::vector<const hlo::Call*>> found;
    for (const auto& piece : pieces) {
      if (m.recording.nodes[piece[0]].call->name == "clip") found.insert(calls(m.recording, piece));
    }
    return found;
  };
  CHECK(lanes(first, now).size() == 2);
  CHECK(lanes(first, now) == lanes(later, then));
}

TEST_CASE("split: lanes are found before a forward pass that reads them all") {
  Maker m;
  std::vector<Ref> weights, moments;
  for (int i = 0; i < 60; ++i) {
    weights.push_back(m.input());
    moments.push_back(m.input());
  }
  for (const char* op : {"moment", "step"}) {
    for (size_t i = 0; i < 60; ++i) {
      Ref& to = *op == 'm' ? moments[i] : weights[i];
      to = m.node(call(op, 2), {to, moments[i]});
    }
  }
  Ref x = m.input();
  std::vector<Ref> kept;
  for (const Ref weight : weights) kept.push_back(x = m.node(call("layer", 2), {x, weight}));
  for (size_t i = 60; i-- > 0;) x = m.node(call("back", 3), {x, kept[i], weights[i]});
  const auto pieces = split(m.recording);
  check_order(m.recording, pieces);
  for (const auto& piece : pieces) {
    const auto of = [&](std::string_view op) {
      return std::ranges::count_if(piece, [&](uint32_t i) { return m.recording.nodes[i].call->name == op; });
    };
    CHECK(of("moment") == of("step"));
    CHECK(of("moment") < 20);
    if (of("moment") > 0) CHECK(of("layer") + of("back") == 0);
  }
}

TEST_CASE("split: any graph comes out in an order that can run") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Maker m;
    const size_t nodes = 256 + random() % 400, ops = 1 + random() % 6, reach = 1 + random() % 40;
    for (int i = 0; i < 3; ++i) m.input();
    size_t row_op = 0, in_row = 0, row = 0;  // nodes of one operator, which read those before them all
    for (size_t i = 0; i < nodes; ++i) {
      if (in_row == row) {
        in_row = 0;
        row = random() % 40 == 0 ? 4 + random() % 20 : 0;
        row_op = random() % ops;
      }
      const size_t op = row != 0 ? row_op : i % (1 + random() % 3 + ops) % ops, n = op % 3;
      std::vector<Ref> operands;
      for (size_t k = 0; k < n; ++k) {
        const auto back = static_cast<uint32_t>(in_row + 1 + random() % reach);
        if (random() % 4 == 0 || back > i) {
          operands.emplace_back(Ref::kInput, static_cast<uint32_t>(random() % 3));
        } else {
          operands.emplace_back(Ref::kResult, static_cast<uint32_t>(i) - back);
        }
      }
      constexpr std::string_view kNames[] = {"u", "v", "w", "x", "y", "z"};
      m.node(call(kNames[op], n, 1 << 16, round % 3 == 0 && random() % 50 == 0), operands);
      if (row != 0) ++in_row;
    }
    check_order(m.recording, split(m.recording));
  }
}

}  // namespace tpu::runtime
