// Tests leat.Quantize and leat.Dequantize, and the ops of ONNX that are made of them.
#include "ops/definitions/quantize.h"

#include <cmath>
#include <map>

#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

std::vector<DType> quantized_types() {
  std::vector<DType> all;
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (kQuantizedTypes.has(dtype) && dtype != DType::f8e8m0) all.push_back(dtype);
  }
  return all;
}

// The number that leat.Quantize stores for x, from the definition.
double stored(double x, double zero, DType to) {
  const QuantizedRange range = quantized_range(to);
  const double moved = (is_narrow_float(to) ? x : std::nearbyint(x)) + zero;
  const double held = std::isnan(x) ? 0 : std::clamp(moved, range.least, range.most);
  return Tensor::scalar_of(to, held).at(0);
}

// "<type>[2,3]" of a tensor.
std::string type_of(const Tensor& x) {
  std::string text(dtype_name(x.dtype()));
  return x.shape().rank() == 0 ? text : text + cat("[", join(x.shape(), ","), "]");
}

struct Run {
  std::vector<Tensor> outputs, gradients;
};

// The outputs of nodes over the inputs a, b, ..., and the gradients of the sum of `loss` by `xs`.
Run run_nodes(const std::string& nodes, const std::vector<Tensor>& of, const std::string& outputs,
              const std::vector<size_t>& xs) {
  INFO(nodes);
  std::string header;
  for (size_t i = 0; i < of.size(); ++i)
    header +=
        cat(i > 0 ? ", " : "", type_of(of[i]), " ", std::string(1, static_cast<char>('a' + i)));
  Graph graph = must(parse_graph(cat("<ir_version: 11, opset_import: [\"\" : 25]>\ng (", header,
                                     ") => (", outputs, ") {\n", nodes, "\n}\n"),
                                 test_catalogue(), "g"));
  REQUIRE(validate(graph).message() == "");
  std::map<ValueId, Tensor> feeds;
  for (size_t i = 0; i < of.size(); ++i) feeds[graph.inputs()[i]] = of[i];
  Run run;
  run.outputs = must(interpret(graph, feeds, graph.outputs()));
  if (xs.empty()) return run;
  Inference inference(graph);
  REQUIRE(inference.run().ok());
  std::vector<ValueId> wanted;
  for (const size_t i : xs) wanted.push_back(graph.inputs()[i]);
  const auto gradients = must(add_gradients(inference, graph.outputs()[0], wanted));
  run.gradients = must(interpret(graph, feeds, gradients));
  return run;
}

TEST_CASE("leat.Quantize rounds, moves and holds, and leat.Dequantize turns it back") {
  const Tensor x = Tensor::of<float>({2, 6}, {0.5f, 1.5f, -2.5f, 3.4f, 300, -300,  //
                                              0, -0.2f, 7.75f, 70'000, -1e9f, 2.3f});
  for (const DType from : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const DType to : quantized_types()) {
      INFO(from << " to " << to);
      const Tensor in = x.cast(from), zero = Tensor::of<float>({2, 1}, {0, 1}).cast(to);
      const Tensor y = run1("leat.Quantize", {in, zero});
      Tensor expected(to, {2, 6}), back(DType::f64, {2, 6});
      for (int64_t i = 0; i < 12; ++i) {
        const double z = zero.at(i / 6);
        expected.set(i, stored(in.at(i), z, to));
        back.set(i, expected.at(i) - z);
      }
      check_identical(y, expected);
      const Attrs as{{"to", int64_t{dtype_onnx_code(from)}}};
      check_identical(run1("leat.Dequantize", {y, zero}, as), back.cast(from));
      check_identical(run1("leat.Dequantize", {y}, as), y.cast(from));
      check_tiles("leat.Quantize", {in, zero});
      check_tiles("leat.Dequantize", {y, zero}, as);
    }
  }
  const Tensor odd = Tensor::of<float>({3}, {NAN, INFINITY, -INFINITY});
  check_identical(run1("leat.Quantize", {odd, Tensor::scalar<int8_t>(3)}),
                  Tensor::of<int8_t>({3}, {0, 127, -128}));
  const Attrs as_float{{"to", int64_t{1}}}, as_integer{{"to", int64_t{6}}};
  const Tensor wide = Tensor::of<int32_t>({2}, {1 << 30, -7});
  check_identical(run1("leat.Dequantize", {wide}, as_float), Tensor::of<float>({2}, {1 << 30, -7}));
  CHECK(run_error("leat.Dequantize", {wide}, as_integer).message() ==
        "leat.Dequantize: to: expected the code of a float, received 6");
}

TEST_CASE("a float of 8 bits beyond the range follows the attribute") {
  const Tensor x = Tensor::of<float>({2}, {1000, 1}), zero = Tensor(DType::f8e4m3fn, {});
  CHECK(run1("leat.Quantize", {x, zero}).at(0) == 448);
  CHECK(std::isnan(run1("leat.Quantize", {x, zero}, {{"saturate", int64_t{0}}}).at(0)));
}

TEST_CASE("a zero that would widen the operand is refused") {
  const Tensor x(DType::f32, {2, 1}), zero(DType::i8, {2, 3});
  CHECK(run_error("leat.Quantize", {x, zero}).message() ==
        "leat.Quantize: zero: expected a shape that broadcasts to [2,1], received [2,3]");
}

TEST_CASE("gradients go straight through stored numbers") {
  const Tensor x = Tensor::of<float>({6}, {0.26f, -0.9f, 3, 70, -70, 63.4f});
  const Tensor scale = Tensor::scalar<float>(0.5f),
               factors = Tensor::of<float>({6}, {1, 2, 3, 4, 5, 6});
  for (const DType to : {DType::i8, DType::i4, DType::f8e4m3fn, DType::f4e2m1}) {
    INFO(to);
    const QuantizedRange range = quantized_range(to);
    const std::string code = std::to_string(dtype_onnx_code(to));
    const Run run = run_nodes(
        cat("s = Constant <value_ints = [2, 3]> ()  u = Constant <value_ints = [6]> ()\n",
            "q = QuantizeLinear <output_dtype = ", code,
            "> (a, b)  r = Reshape <allowzero = 0> (q, s)\n",
            "t = Transpose (r)  f = Transpose (t)\n", "g = Reshape (f, u)\n",
            "y = DequantizeLinear (g, b)  m = Mul (y, c)\n", "l = ReduceSum <keepdims = 0> (m)"),
        {x, scale, factors}, "l, y", {0});
    Tensor expected(DType::f32, {6});
    for (int64_t i = 0; i < 6; ++i) {
      const double quotient = x.at(i) / 0.5;
      const double place = is_narrow_float(to) ? quotient : std::nearbyint(quotient);
      const bool inside = place >= range.least && place <= range.most;
      expected.set(i, inside ? factors.at(i) : 0);
      CHECK(run.outputs[1].at(i) == stored(quotient, 0, to) * 0.5);
    }
    check_identical(run.gradients[0], expected);
  }
}

TEST_CASE("readers of one stored number may read it as different floats") {
  const Tensor x = Tensor::of<float>({2}, {3, -70}), one = Tensor::scalar<float>(1);
  const Run run = run_nodes(
      "q = QuantizeLinear <output_dtype = 22> (a, b)  c = Concat <axis = 0> (q, q)\n"
      "d = DequantizeLinear (c, b)  s = ReduceSum <keepdims = 0> (d)\n"
      "h = Cast <to = 10> (q)  f = Cast <to = 1> (h)  t = ReduceSum <keepdims = 0> (f)\n"
      "l = Add (s, t)",
      {x, one}, "l", {0});
  CHECK(run.outputs[0].at(0) == 3 * (3 - 8));
  check_identical(run.gradients[0], Tensor::of<float>({2}, {3, 0}));
}

TEST_CASE("products of quantized floats of 8 bits are those of their numbers") {
  const Run run = run_nodes(
      "x = Constant <value = float8e4m3fn[1, 2] {48, 52}> ()\n"  // 0.5 and 0.75
      "w = Constant <value = float8e4m3fn[2, 1] {56, 60}> ()\n"  // 1 and 1.5
      "z = Constant <value = float8e4m3fn {0}> ()\n"
      "q = QLinearMatMul (x, a, z, w, a, z, a, z)  y = Cast <to = 1> (q)",
      {Tensor::scalar<float>(1)}, "y", {});
  CHECK(run.outputs[0].at(0) == 1.625);
}

TEST_CASE("a scale of powers of two in 8 bits divides as the floats that it stands for") {
  const Run run = run_nodes(
      "s = Constant <value = float8e8m0 {129}> ()  q = QuantizeLinear <output_dtype = 3> (a, s)\n"
      "y = DequantizeLinear <output_dtype = 1> (q, s)",
      {Tensor::of<float>({3}, {4.3f, 9.7f, -13})}, "y", {});
  check_identical(run.outputs[0], Tensor::of<float>({3}, {4, 8, -12}));
}

TEST_CASE("a variable of a narrow type is refused") {
  CHECK_THAT(run_error("leat.Variable", {},
                       {{"name", std::string("v")},
                        {"dtype", std::string("int4")},
                        {"shape", std::vector<int64_t>{2}}})
                 .message(),
             Catch::Contains("dtype: expected a type that ops compute in, received int4"));
}

TEST_CASE("scales of quantized weights have gradients, by an axis and by blocks") {
  const Tensor w = random_tensor(DType::f32, {4, 6}, 1),
               axis = random_tensor(DType::f32, {6}, 2, 0.1, 1);
  const std::string loss = "  m = Mul (y, y)  l = ReduceSum <keepdims = 0> (m)";
  const Run by_axis = run_nodes(
      "q = QuantizeLinear <axis = 1, output_dtype = 22> (a, b)\n"
      "y = DequantizeLinear <axis = 1> (q, b)" +
          loss,
      {w, axis}, "l, y", {0, 1});
  CHECK(by_axis.gradients[1].shape() == Shape{6});
  // d(q s)/ds is q, less w / s where the gradient goes through.
  for (int64_t j = 0; j < 6; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < 4; ++i) {
      const double s = axis.at(j), quotient = w.at(6 * i + j) / s;
      const double q = stored(static_cast<float>(quotient), 0, DType::i4);
      const bool inside = std::abs(std::nearbyint(quotient) + 0.5) < 8;
      sum += 2 * q * s * (q - (inside ? quotient : 0));
    }
    CHECK(by_axis.gradients[1].at(j) == Approx(sum).margin(1e-4));
  }
  const Tensor blocks = random_tensor(DType::f32, {4, 2}, 3, 0.1, 1);
  const Run by_block = run_nodes(
      "q = QuantizeLinear <axis = 1, block_size = 3, output_dtype = 17> (a, b)\n"
      "y = DequantizeLinear <axis = 1, block_size = 3> (q, b)" +
          loss,
      {w, blocks}, "l, y", {0});
  for (int64_t i = 0; i < 24; ++i) {
    const double s = blocks.at(i / 3);
    const double y = stored(static_cast<float>(w.at(i) / s), 0, DType::f8e4m3fn) * s;
    CHECK(by_block.outputs[1].at(i) == Approx(y).epsilon(1e-6));
    CHECK(by_block.gradients[0].at(i) == Approx(2 * y).epsilon(1e-5).margin(1e-6));
  }
}

}  // namespace
}  // namespace leat::testing
