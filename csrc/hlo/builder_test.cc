#include "hlo/builder.h"

#include <doctest/doctest.h>

#include <limits>

namespace tpu::hlo {
namespace {

const Type kF32x2x3{DType::kF32, {2, 3}};
constexpr double kInf = std::numeric_limits<double>::infinity();

// What stands between the braces of @main.
std::string body(Builder& b, const Values& results) {
  const std::string text = b.finish("test", results);
  const size_t start = text.find("{\n", text.find("@main")) + 2;
  return text.substr(start, text.rfind("  }\n}") - start);
}

std::string constant(const std::function<Value(Builder&)>& make) {
  Builder b;
  const std::string text = body(b, {make(b)});
  const size_t start = text.find("dense");
  return text.substr(start, text.find('\n') - start);
}

std::string error(const std::function<void(Builder&, Value)>& use) {
  Builder b;
  const Value x = b.parameter(kF32x2x3);
  try {
    use(b, x);
  } catch (const BuildError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a type prints as MLIR, and equal types share an address") {
  CHECK(kF32x2x3.str() == "tensor<2x3xf32>");
  CHECK(Type{DType::kC64, {}}.str() == "tensor<complex<f32>>");
  CHECK(intern(kF32x2x3) == intern(Type{DType::kF32, {2, 3}}));
  CHECK(intern(kF32x2x3) != intern(Type{DType::kF32, {3, 2}}));
  CHECK(*intern(kF32x2x3) == kF32x2x3);
}

TEST_CASE("what was joined part by part is joined once, and joins that nobody uses are left out") {
  Builder b;
  const Value x = b.parameter({DType::kF32, {2}}), y = b.parameter({DType::kF32, {3}});
  const Value once = b.concat({x, y}, 0), twice = b.concat({once, y}, 0);
  CHECK(body(b, {b.neg(twice)}) ==
        "    %3 = stablehlo.concatenate %0, %1, %1, dim = 0 : (tensor<2xf32>, tensor<3xf32>, tensor<3xf32>) -> "
        "tensor<8xf32>\n"
        "    %4 = stablehlo.negate %3 : tensor<8xf32>\n"
        "    return %4 : tensor<8xf32>\n");
}

TEST_CASE("a join that somebody uses stays, and so does one along another dimension") {
  Builder b;
  const Value x = b.parameter({DType::kF32, {2, 2}});
  const Value used = b.concat({x, x}, 0), twice = b.concat({used, x}, 0), across = b.concat({twice, twice}, 1);
  const std::string text = body(b, {used, across});
  CHECK(text.find("%1 = stablehlo.concatenate %0, %0, dim = 0") != text.npos);
  CHECK(text.find("%2 = stablehlo.concatenate %0, %0, %0, dim = 0") != text.npos);
  CHECK(text.find("%3 = stablehlo.concatenate %2, %2, dim = 1") != text.npos);
}

TEST_CASE("a region takes a join as one value, and its own joins stay in it") {
  Builder b;
  const Value x = b.parameter({DType::kF32, {2}}), yes = b.parameter({DType::kBool, {}});
  const Value outer = b.concat({x, x}, 0);
  const Values made =
      b.if_(yes, [&] { return Values{b.concat({outer, x}, 0)}; }, [&] { return Values{b.concat({x, outer}, 0)}; });
  const std::string text = body(b, {b.concat({made[0], x}, 0)});
  CHECK(text.find("stablehlo.concatenate %2, %0, dim = 0") != text.npos);
  CHECK(text.find("stablehlo.concatenate %0, %2, dim = 0") != text.npos);
  CHECK(text.find("stablehlo.concatenate %" + std::to_string(made[0].id) + ", %0") != text.npos);
}

TEST_CASE("a module") {
  Builder b;
  const Value x = b.parameter(kF32x2x3, "jax.buffer_donor = true");
  const Value y = b.parameter({DType::kF32, {}});
  CHECK(b.finish("a.b", {b.add(x, y), y}) ==
        "module @a_b {\n"
        "  func.func public @main(%0: tensor<2x3xf32> {jax.buffer_donor = true}, %1: tensor<f32>)"
        " -> (tensor<2x3xf32>, tensor<f32>) {\n"
        "    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>\n"
        "    %3 = stablehlo.add %2, %0 : tensor<2x3xf32>\n"
        "    return %3, %1 : tensor<2x3xf32>, tensor<f32>\n"
        "  }\n"
        "}\n");
}

TEST_CASE("short forms") {
  Builder b;
  const Value x = b.parameter(kF32x2x3), y = b.parameter(kF32x2x3);
  const Value less = b.lt(x, y);
  b.select(less, x, y);
  b.eq(less, less);
  b.real(b.complex(x, y));
  b.slice(x, {0, 1}, {2, 3}, {1, 2});
  b.pad(x, b.scalar(0.1, DType::kF32), {1, 0}, {0, -1});
  b.concat({x, y}, 1);
  b.matmul(x, b.transpose(y, {1, 0}), DType::kF32);
  CHECK(body(b, {}) ==
        "    %8 = stablehlo.constant dense<0.1> : tensor<f32>\n"
        "    %2 = stablehlo.compare LT, %0, %1, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>\n"
        "    %3 = stablehlo.select %2, %0, %1 : tensor<2x3xi1>, tensor<2x3xf32>\n"
        "    %4 = stablehlo.compare EQ, %2, %2, UNSIGNED : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>\n"
        "    %5 = stablehlo.complex %0, %1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xcomplex<f32>>\n"
        "    %6 = \"stablehlo.real\"(%5) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>\n"
        "    %7 = stablehlo.slice %0 [0:2, 1:3:2] : (tensor<2x3xf32>) -> tensor<2x1xf32>\n"
        "    %9 = stablehlo.pad %0, %8, low = [1, 0], high = [0, -1], interior = [0, 0]"
        " : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x2xf32>\n"
        "    %10 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>\n"
        "    %11 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
        "    %12 = stablehlo.dot_general %0, %11, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]"
        " : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>\n"
        "    return \n");
}

TEST_CASE("a product with a vector reads a transposed matrix as it lies") {
  const auto product_with = [&](int64_t rows) {
    Builder b;
    const Value x = b.parameter({DType::kF32, {rows, 3}}), w = b.parameter({DType::kF32, {5, 3}});
    const std::string text = body(b, {b.matmul(x, b.transpose(w, {1, 0}), DType::kF32)});
    return text.substr(text.find("dot_general"), text.find(", precision") - text.find("dot_general"));
  };
  CHECK(product_with(1) == "dot_general %0, %1, contracting_dims = [1] x [1]");
  CHECK(product_with(2) == "dot_general %0, %2, contracting_dims = [1] x [0]");
}

TEST_CASE("a transpose that orders the dimensions of a product's result is kept") {
  Builder b;
  const Value x = b.parameter({DType::kF32, {4, 1}}), w = b.parameter({DType::kF32, {2, 3, 4}});
  const Value t = b.transpose(w, {1, 0, 2});
  const std::string text = body(b, {b.dot_general(t, x, {}, {}, {2}, {0}, DType::kF32)});
  CHECK(text.find("dot_general %2, %0, contracting_dims = [2] x [0]") != std::string::npos);
}

TEST_CASE("regions hold their own constants") {
  Builder b;
  const Value x = b.parameter(kF32x2x3);
  const auto add_one = [&](const Values& v) {
    const Value sum = b.add(v[0], v[1]);
    return Values{b.add(sum, b.mul(b.scalar(1, DType::kF32), b.scalar(1, DType::kF32)))};
  };
  const Value sum = b.reduce({x}, {b.scalar(1, DType::kF32)}, {1}, add_one)[0];
  CHECK(body(b, {sum}) ==
        "    %1 = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "    %8 = \"stablehlo.reduce\"(%0, %1) ({\n"
        "    ^bb0(%2: tensor<f32>, %3: tensor<f32>):\n"
        "      %5 = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "      %4 = stablehlo.add %2, %3 : tensor<f32>\n"
        "      %6 = stablehlo.multiply %5, %5 : tensor<f32>\n"
        "      %7 = stablehlo.add %4, %6 : tensor<f32>\n"
        "      stablehlo.return %7 : tensor<f32>\n"
        "    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
        "    return %8 : tensor<2xf32>\n");
}

TEST_CASE("generic forms") {
  Builder b;
  const Value x = b.parameter(kF32x2x3), i = b.parameter({DType::kS32, {4, 1}});
  const Value rows =
      b.gather(x, i, {.offset = {1}, .collapsed = {0}, .start_index_map = {0}, .index_vector_dim = 1}, {1, 3});
  const Values parts = b.custom_call("Pair", {x}, {kF32x2x3, kF32x2x3}, "has_side_effect = true");
  CHECK(body(b, {rows, parts[0]}) ==
        "    %2 = \"stablehlo.gather\"(%0, %1) {dimension_numbers = #stablehlo.gather<offset_dims = [1],"
        " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>,"
        " indices_are_sorted = false} : (tensor<2x3xf32>, tensor<4x1xi32>) -> tensor<4x3xf32>\n"
        "    %3, %4 = \"stablehlo.custom_call\"(%0) {call_target_name = \"Pair\", has_side_effect = true}"
        " : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)\n"
        "    return %2, %3 : tensor<4x3xf32>, tensor<2x3xf32>\n");
}

TEST_CASE("literals") {
  const auto scalar = [](double v, DType t) { return constant([=](Builder& b) { return b.scalar(v, t); }); };
  const auto integer = [](int64_t v, DType t) { return constant([=](Builder& b) { return b.scalar_int(v, t); }); };
  CHECK(scalar(1e22, DType::kF64) == "dense<1.0e+22> : tensor<f64>");
  CHECK(scalar(-0.0, DType::kF32) == "dense<-0.0> : tensor<f32>");
  CHECK(scalar(5e-324, DType::kF64) == "dense<5.0e-324> : tensor<f64>");
  CHECK(scalar(-kInf, DType::kF32) == "dense<0xFF800000> : tensor<f32>");
  CHECK(scalar(std::numeric_limits<double>::quiet_NaN(), DType::kBF16) == "dense<0x7FC0> : tensor<bf16>");
  CHECK(scalar(65520, DType::kF16) == "dense<0x7C00> : tensor<f16>");
  CHECK(scalar(65519, DType::kF16) == "dense<65519.0> : tensor<f16>");
  CHECK(scalar(-1000, DType::kF8E4M3FN) == "dense<0xFE> : tensor<f8E4M3FN>");
  CHECK(scalar(1, DType::kC64) == "dense<(1.0, 0.0)> : tensor<complex<f32>>");
  CHECK(scalar(2, DType::kBool) == "dense<true> : tensor<i1>");
  CHECK(integer(-1, DType::kU8) == "dense<255> : tensor<ui8>");
  CHECK(integer(-1, DType::kU64) == "dense<18446744073709551615> : tensor<ui64>");
  CHECK(integer((int64_t{1} << 53) + 1, DType::kS64) == "dense<9007199254740993> : tensor<i64>");
  CHECK(constant([](Builder& b) { return b.lowest(DType::kS16); }) == "dense<-32768> : tensor<i16>");
  CHECK(constant([](Builder& b) { return b.highest(DType::kF32); }) == "dense<0x7F800000> : tensor<f32>");
  CHECK(constant([](Builder& b) { return b.highest(DType::kF8E4M3FN); }) == "dense<448.0> : tensor<f8E4M3FN>");
  const std::vector<int64_t> v = {1, -2};
  CHECK(constant([&](Builder& b) { return b.array(v, DType::kS32); }) == "dense<[1, -2]> : tensor<2xi32>");
  CHECK(constant([](Builder& b) { return b.array(std::span<const int64_t>{}, DType::kS32); }) ==
        "dense<> : tensor<0xi32>");
}

TEST_CASE("what changes nothing writes nothing") {
  Builder b;
  const Value x = b.parameter(kF32x2x3);
  for (const Value y :
       {b.reshape(x, {2, 3}), b.transpose(x, {0, 1}), b.convert(x, DType::kF32), b.bitcast(x, DType::kF32),
        b.broadcast_to(x, {2, 3}), b.slice(x, {0, 0}, {2, 3}), b.concat({x}, 0), b.reverse(x, {}),
        b.reduce(Reduce::kAdd, x, {}), b.real(x), b.pad(x, b.scalar(0, DType::kF32), {0, 0}, {0, 0})}) {
    CHECK(y.id == x.id);
  }
  CHECK(b.ops() == 1);  // the padding value
}

TEST_CASE("errors name the operation and the operands") {
  const auto same = [](const Values& v) { return v; };
  const auto f16 = [](Builder& b) { return b.parameter({DType::kF16, {2, 3}}); };
  CHECK(error([&](Builder& b, Value x) { b.add(x, f16(b)); }) ==
        "stablehlo.add(tensor<2x3xf32>, tensor<2x3xf16>): the element types differ");
  CHECK(error([](Builder& b, Value x) { b.add(x, b.transpose(x, {1, 0})); }) ==
        "stablehlo.add(tensor<2x3xf32>, tensor<3x2xf32>): the dims differ");
  CHECK(error([](Builder& b, Value x) { b.add(x, {}); }) ==
        "stablehlo.add(tensor<2x3xf32>, nothing): an operand is missing");
  CHECK(error([](Builder& b, Value x) { b.and_(x, x); }) ==
        "stablehlo.and(tensor<2x3xf32>, tensor<2x3xf32>): not defined for this element type");
  CHECK(error([](Builder& b, Value x) { b.reshape(x, {5}); }) ==
        "stablehlo.reshape(tensor<2x3xf32>): cannot be tensor<5xf32>");
  CHECK(error([](Builder& b, Value x) { b.transpose(x, {0, 0}); }) ==
        "stablehlo.transpose(tensor<2x3xf32>): no permutation: [0, 0]");
  CHECK(error([](Builder& b, Value x) { b.slice_dim(x, 1, 2, 4); }) ==
        "stablehlo.slice(tensor<2x3xf32>): dimension 1 has no 2:4");
  CHECK(error([](Builder& b, Value x) { b.broadcast_to(x, {3, 3}); }) ==
        "stablehlo.broadcast_in_dim(tensor<2x3xf32>): cannot be tensor<3x3xf32> by [0, 1]");
  CHECK(error([](Builder& b, Value x) { b.matmul(x, x, DType::kF32); }) ==
        "stablehlo.dot_general(tensor<2x3xf32>, tensor<2x3xf32>): contracted dims differ");
  CHECK(error([](Builder& b, Value x) { b.reduce(Reduce::kAdd, x, {2}); }) ==
        "stablehlo.reduce(tensor<2x3xf32>): no dimensions [2]");
  CHECK(error([](Builder& b, Value x) { b.sort({x}, 0, true, [](const Values& v) { return Values{v[0]}; }); }) ==
        "stablehlo.sort(tensor<2x3xf32>): the comparison returns no bool");
  CHECK(error([&](Builder& b, Value x) { b.while_({x}, same, same); }) ==
        "stablehlo.while(tensor<2x3xf32>): the condition returns no bool");
  CHECK(error([](Builder& b, Value x) { b.reshape({}, x.dims()); }) != "no error");
  CHECK(error([](Builder& b, Value x) { b.lt(b.complex(x, x), b.complex(x, x)); }) != "no error");
  CHECK(error([](Builder& b, Value x) { b.gather(x, x, {}, {1, 1}); }) != "no error");
  CHECK(error([](Builder& b, Value x) { b.cholesky(x, true); }) != "no error");
  CHECK(error([](Builder& b, Value x) { b.fft(x, Fft::kFft, {3}); }) != "no error");
  CHECK(error([](Builder& b, Value x) { b.finish("test", {x, {}}); }) != "no error");
  CHECK(error([](Builder& b, Value) { b.scalar(std::numeric_limits<double>::quiet_NaN(), DType::kS32); }) ==
        "constant: NaN has no integer value");
}

}  // namespace tpu::hlo
