// Gradients of ops that become others when a graph is loaded, against central differences in f64.
#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/text/composites.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

// The graph "y = NODE" with inputs a, b, c, d of the tensors' types, and z, the sum of sin(y) y.
// `before` is a node in front of it.
Graph composed(const std::string& node, const std::vector<Tensor>& of, const std::string& before) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < of.size(); ++i) {
    inputs.push_back(cat(of[i].dtype() == DType::f64 ? "double" : "int64", "[",
                         join(of[i].shape(), ","), "] ",
                         std::string(1, static_cast<char>('a' + i))));
  }
  return must(
      parse_graph(cat("<ir_version: 10, opset_import: [\"\" : 23]>\ng (", join(inputs, ", "),
                      ") => (z) {\n  ", before, "\n  y = ", node,
                      "\n  s = Sin (y)\n  p = Mul (s, y)\n  z = ReduceSum <keepdims = 0> (p)\n}\n"),
                  test_catalogue(), "g"));
}

std::map<ValueId, Tensor> fed(const Graph& graph, const std::vector<Tensor>& of) {
  std::map<ValueId, Tensor> feeds;
  for (size_t i = 0; i < of.size(); ++i) feeds[graph.inputs()[i]] = of[i].clone();
  return feeds;
}

void check_composite(const std::string& node, const std::vector<Tensor>& of,
                     const std::vector<size_t>& differentiable, const std::string& before = "") {
  INFO(node);
  Graph forward = composed(node, of, before), graph = composed(node, of, before);
  std::map<ValueId, Tensor> feeds = fed(forward, of);
  REQUIRE(validate(forward).ok());
  Inference inference(graph);
  REQUIRE(inference.run().ok());
  std::vector<ValueId> xs;
  for (const size_t i : differentiable) xs.push_back(graph.inputs()[i]);
  const auto gradients = must(add_gradients(inference, graph.outputs()[0], xs));
  const auto computed = must(interpret(graph, fed(graph, of), gradients));
  for (size_t k = 0; k < xs.size(); ++k) {
    INFO("input " << differentiable[k]);
    Tensor& x = feeds[forward.inputs()[differentiable[k]]];
    const auto value = [&] { return must(interpret(forward, feeds, forward.outputs()))[0].at(0); };
    Tensor numeric(DType::f64, x.shape());
    for (int64_t i = 0; i < x.elements(); ++i) {
      constexpr double kStep = 1e-5;
      const double at = x.at(i);
      x.set(i, at + kStep);
      const double above = value();
      x.set(i, at - kStep);
      numeric.set(i, (above - value()) / (2 * kStep));
      x.set(i, at);
    }
    check_close(computed[k], numeric, 1e-6, 1e-6);
  }
}

Tensor doubles(const Shape& shape, uint64_t seed, double low = -2, double high = 2) {
  return random_tensor(DType::f64, shape, seed, low, high);
}

TEST_CASE("RotaryEmbedding turns heads in each form, and its gradients agree") {
  const Tensor places = Tensor::of<int64_t>({2, 3}, {0, 4, 1, 2, 2, 3});
  const Tensor cos = doubles({5, 2}, 1), sin = doubles({5, 2}, 2);
  const Tensor flat = doubles({2, 3, 8}, 3), heads = doubles({2, 2, 3, 6}, 4);
  check_composite("RotaryEmbedding <num_heads = 2> (a, b, c, d)", {flat, cos, sin, places},
                  {0, 1, 2});
  check_composite("RotaryEmbedding <interleaved = 1, num_heads = 2> (a, b, c, d)",
                  {flat, cos, sin, places}, {0, 1, 2});
  const Tensor all_cos = doubles({2, 3, 2}, 5), all_sin = doubles({2, 3, 2}, 6);
  check_composite("RotaryEmbedding <rotary_embedding_dim = 4> (a, b, c)", {heads, all_cos, all_sin},
                  {0, 1, 2});
  check_composite("RotaryEmbedding <rotary_embedding_dim = 4, interleaved = 1> (a, b, c)",
                  {heads, all_cos, all_sin}, {0, 1, 2});
}

TEST_CASE("gradients of sums over windows agree with finite differences") {
  check_composite("LRN <size = 3, alpha = 0.5, beta = 0.75, bias = 1.5> (a)",
                  {doubles({2, 5, 2, 3}, 1)}, {0});
  check_composite("LRN <size = 4, alpha = 0.5> (a)", {doubles({1, 3, 4}, 1)}, {0});
  const Tensor image = doubles({2, 1, 4, 5}, 2, 0.3, 2);
  check_composite("LpPool <kernel_shape = [2, 3], strides = [2, 1], pads = [0, 1, 0, 1]> (a)",
                  {image}, {0});
  check_composite("LpPool <kernel_shape = [2, 2], p = 3> (a)", {image}, {0});
  check_composite("LpPool <kernel_shape = [2, 2], p = 1> (a)", {image}, {0});
  check_composite("GlobalLpPool <p = 2> (a)", {image}, {0});
}

TEST_CASE("AffineGrid maps the places of an image, and its gradient agrees") {
  for (const char* align : {"0", "1"}) {
    const std::string node = cat("AffineGrid <align_corners = ", align, "> (a, sizes)");
    check_composite(node, {doubles({2, 2, 3}, 1)}, {0},
                    "sizes = Constant <value = int64[4] {2, 1, 3, 4}> ()");
    check_composite(node, {doubles({1, 3, 4}, 1)}, {0},
                    "sizes = Constant <value = int64[5] {1, 1, 2, 3, 2}> ()");
  }
}

TEST_CASE("Col2Im adds up windows, and its gradient agrees") {
  // Two images of two channels, 5 by 4, by windows of 3 by 2: the last row of the first case is in
  // no window.
  const std::string sizes =
      "i = Constant <value = int64[2] {5, 4}> ()  w = Constant <value = int64[2] {3, 2}> ()";
  check_composite("Col2Im <strides = [2, 1], pads = [0, 0, 1, 1]> (a, i, w)",
                  {doubles({2, 12, 8}, 1)}, {0}, sizes);
  check_composite("Col2Im (a, i, w)", {doubles({2, 6, 9}, 1)}, {0}, sizes);
  check_composite("Col2Im <dilations = [2, 3], pads = [1, 1, 1, 0], strides = [3, 1]> (a, i, w)",
                  {doubles({1, 12, 2}, 1)}, {0}, sizes);
}

TEST_CASE("gradients of Einsum with a label twice agree with finite differences") {
  const Tensor cube = doubles({3, 2, 3}, 1), square = doubles({4, 4}, 2);
  check_composite("Einsum <equation = \"aba->ba\"> (a)", {cube}, {0});
  check_composite("Einsum <equation = \"aba\"> (a)", {cube}, {0});
  check_composite("Einsum <equation = \"ii\"> (a)", {square}, {0});
  check_composite("Einsum <equation = \"...ii->...i\"> (a)", {doubles({2, 3, 3}, 3)}, {0});
  check_composite("Einsum <equation = \"...ij->...i\"> (a)", {cube}, {0});
  check_composite("Einsum <equation = \"iij,ij->j\"> (a, b)",
                  {doubles({3, 3, 2}, 4), doubles({3, 2}, 5)}, {0, 1});
  check_composite("Einsum <equation = \"iii->i\"> (a)", {doubles({3, 3, 3}, 6)}, {0});
}

TEST_CASE("gradients of ops that choose elements agree with finite differences") {
  const std::string condition =
      "i = Constant <value = int64[3] {1, 0, 1}> ()  c = Cast <to = 9> (i)";
  check_composite("Compress <axis = 1> (a, c)", {doubles({2, 3, 2}, 1)}, {0}, condition);
  check_composite("Compress (a, c)", {doubles({2, 3}, 2)}, {0}, condition);
  check_composite("ai.onnx.ml.ArrayFeatureExtractor (a, i)", {doubles({2, 4}, 3)}, {0}, condition);
  check_composite("ai.onnx.ml.ArrayFeatureExtractor (a, i)", {doubles({4}, 4)}, {0}, condition);
}

TEST_CASE("gradients of FlexAttention agree with finite differences") {
  const Tensor q = doubles({2, 4, 3, 2}, 1), k = doubles({2, 2, 5, 2}, 2),
               v = doubles({2, 2, 5, 3}, 3), slope = doubles({5}, 4);
  check_composite("ai.onnx.preview.FlexAttention (a, b, c)", {q, k, v}, {0, 1, 2});
  // Both regions have a value of one name, and the first one takes d from around it.
  check_composite(
      "ai.onnx.preview.FlexAttention <scale = 0.5, "
      "score_mod = f (double[B, H, L, S] x) => (t) { u = Mul (x, d)  t = Tanh (u) }, "
      "prob_mod = g (double[B, H, L, S] x) => (t) { t = Mul (x, x) }> (a, b, c)",
      {q, k, v, slope}, {0, 1, 2, 3});
}

TEST_CASE("gradients of the steps of optimizers agree with finite differences") {
  const Tensor rate = doubles({1}, 1, 0.1, 0.2), step = Tensor::of<int64_t>({1}, {3});
  const Tensor x = doubles({3}, 2), g = doubles({3}, 3, 0.5, 2), h = doubles({3}, 4, 1, 2);
  check_composite(
      "ai.onnx.preview.training.Momentum <alpha = 0.9, beta = 0.7, norm_coefficient = 0.1, "
      "mode = \"nesterov\"> (a, b, c, d, h)",
      {rate, step, x, g}, {0, 2, 3}, "h = Identity (c)");
  check_composite(
      "ai.onnx.preview.training.Adagrad <decay_factor = 0.1, norm_coefficient = 0.1> "
      "(a, b, c, d, h)",
      {rate, step, x, g}, {0, 2, 3}, "h = Abs (d)");
  check_composite(
      "ai.onnx.preview.training.Adam <norm_coefficient = 0.1, norm_coefficient_post = 0.2> "
      "(a, b, c, d, v, h)",
      {rate, step, h, g}, {0, 2, 3}, "v = Identity (d)  h = Abs (c)");
}

TEST_CASE("ReverseSequence turns the beginnings of sequences, and so its gradient") {
  const Tensor lengths = Tensor::of<int64_t>({3}, {1, 3, 4});
  check_composite("ReverseSequence (a, b)", {doubles({4, 3, 2}, 1), lengths}, {0});
  check_composite("ReverseSequence <batch_axis = 0, time_axis = 1> (a, b)",
                  {doubles({3, 4}, 1), lengths}, {0});
}

TEST_CASE("gradients of activations and normalizations agree with finite differences") {
  for (const char* node :
       {"HardSwish (a)", "Swish <alpha = 1.5> (a)", "Mish (a)", "Selu (a)",
        "Celu <alpha = 2.0> (a)", "ThresholdedRelu (a)", "Softsign (a)",
        "Shrink <lambd = 0.3, bias = 0.1> (a)", "ReduceLogSumExp <keepdims = 0> (a)",
        "LpNormalization (a)", "Mean (a, a)"})
    check_composite(node, {doubles({2, 3}, 7)}, {0});
  const Tensor x = doubles({2, 4, 3}, 1), scale = doubles({4}, 2), bias = doubles({4}, 3);
  check_composite("InstanceNormalization (a, b, c)", {x, scale, bias}, {0, 1, 2});
  check_composite("GroupNormalization <num_groups = 2> (a, b, c)", {x, scale, bias}, {0, 1, 2});
  check_composite("RMSNormalization (a, b)", {x, doubles({3}, 4)}, {0, 1});
}

TEST_CASE("CenterCropPad cuts and pads around the centre, and its gradient agrees") {
  const std::string sizes = "n = Constant <value = int32[2] {2, 7}> ()";
  check_composite("CenterCropPad <axes = [1, -1]> (a, n)", {doubles({2, 5, 4}, 1)}, {0}, sizes);
  check_composite("CenterCropPad (a, n)", {doubles({5, 7}, 1)}, {0}, sizes);
}

TEST_CASE("MaxUnpool puts elements at their places, and so its gradient") {
  const Tensor places = Tensor::of<int64_t>({1, 2, 2, 2}, {5, 7, 8, 10, 16, 19, 25, 31});
  const std::string shape = "n = Constant <value = int64[4] {1, 2, 5, 3}> ()";
  const std::string attrs = "<kernel_shape = [2, 2], strides = [2, 2]>";
  check_composite("MaxUnpool " + attrs + " (a, b)", {doubles({1, 2, 2, 2}, 1), places}, {0});
  check_composite("MaxUnpool " + attrs + " (a, b, n)", {doubles({1, 2, 2, 2}, 1), places}, {0},
                  shape);
}

TEST_CASE("STFT transforms the frames of a signal, and its gradients agree") {
  const std::string numbers =
      "n = Constant <value = int64 {3}> ()  l = Constant <value = int32 {5}> ()";
  const Tensor real = doubles({2, 13, 1}, 1), complex = doubles({2, 13, 2}, 2),
               window = doubles({5}, 3);
  check_composite("STFT (a, n, b, l)", {real, window}, {0, 1}, numbers);
  check_composite("STFT <onesided = 0> (a, n, b)", {complex, window}, {0, 1}, numbers);
  check_composite("STFT (a, n, , l)", {real}, {0}, numbers);
}

TEST_CASE("CausalConvWithState sums up what came before, and its gradients agree") {
  const Tensor x = doubles({2, 3, 5}, 1), weights = doubles({3, 1, 4}, 2), bias = doubles({3}, 3),
               past = doubles({2, 3, 3}, 4);
  check_composite("CausalConvWithState (a, b)", {x, weights}, {0, 1});
  check_composite("CausalConvWithState <activation = \"silu\"> (a, b, c, d)",
                  {x, weights, bias, past}, {0, 1, 2, 3});
}

TEST_CASE("DeformConv is a convolution at moved places, and its gradients agree") {
  const Tensor x = doubles({2, 4, 4, 5}, 1), weights = doubles({6, 2, 2, 3}, 2),
               offset = doubles({2, 24, 4, 3}, 3, -1.3, 1.3), bias = doubles({6}, 4);
  const std::string attrs = "<group = 2, offset_group = 2, pads = [1, 0, 0, 0]>";
  check_composite("DeformConv " + attrs + " (a, b, c, d)", {x, weights, offset, bias},
                  {0, 1, 2, 3});
  const Tensor mask = doubles({2, 12, 4, 3}, 5);
  check_composite("DeformConv " + attrs + " (a, b, c, , d)", {x, weights, offset, mask},
                  {0, 1, 2, 3});
}

TEST_CASE("values that follow from sizes are ONNX's") {
  const auto value = [](const std::string& node, const Tensor& x) {
    std::string type = x.dtype() == DType::f32 ? "float" : "int64";
    if (x.shape().rank() > 0) type += cat("[", join(x.shape(), ","), "]");
    Graph graph = must(parse_graph(cat("<ir_version: 10, opset_import: [\"\" : 23]>\ng (", type,
                                       " a) => (y) {\n  y = ", node, "\n}\n"),
                                   test_catalogue(), "g"));
    REQUIRE(validate(graph).ok());
    return must(interpret(graph, {{graph.inputs()[0], x}}, graph.outputs()))[0];
  };
  check_identical(value("EyeLike <k = 1> (a)", Tensor(DType::f32, {2, 3})),
                  Tensor::of<float>({2, 3}, {0, 1, 0, 0, 0, 1}));
  check_close(value("HannWindow (a)", Tensor::scalar<int64_t>(4)),
              Tensor::of<float>({4}, {0, 0.5f, 1, 0.5f}));
  check_close(value("HammingWindow <periodic = 0> (a)", Tensor::scalar<int64_t>(3)),
              Tensor::of<float>({3}, {0.0869565f, 1, 0.0869565f}));
  check_identical(value("QuantizeLinear (a, a)", Tensor::scalar<float>(0.5f)).cast(DType::i32),
                  Tensor::scalar<int32_t>(1));
}

TEST_CASE("quantized values of awkward operands are ONNX's") {
  // The outputs y, and others, of nodes whose operands are constants.
  const auto values = [](const std::string& outputs, const std::string& nodes) {
    INFO(nodes);
    Graph graph = must(parse_graph(cat("<ir_version: 11, opset_import: [\"\" : 23]>\n",
                                       "g (float z) => (", outputs, ") {\n", nodes, "\n}\n"),
                                   test_catalogue(), "g"));
    REQUIRE(validate(graph).message() == "");
    return must(interpret(graph, {{graph.inputs()[0], Tensor::scalar<float>(0)}}, graph.outputs()));
  };
  const std::string y = " r = Identity (z)  y = Cast <to = 6> (q)";
  // Elements that are all 0 have the scale 1.
  const auto zeros = values("y, s, o", R"(
    x = Constant <value = float[3] {0, 0, 0}> ()
    q, s, p = DynamicQuantizeLinear (x)  o = Cast <to = 6> (p) )" +
                                           y);
  check_identical(zeros[0], Tensor::of<int32_t>({3}, {0, 0, 0}));
  check_identical(zeros[1], Tensor::scalar<float>(1));
  check_identical(zeros[2], Tensor::scalar<int32_t>(0));
  // Integers of 32 bits, by a scale that is none.
  check_identical(values("y", R"(
    x = Constant <value = int32[4] {7, -3, 1000, 4}> ()  s = Constant <value = float {2.5}> ()
    o = Constant <value = int8 {1}> ()  q = QuantizeLinear (x, s, o))" +
                                  y)[0],
                  Tensor::of<int32_t>({4}, {4, 0, 127, 3}));
  // The scales of A and of the result are those of rows, those of B of columns.
  check_identical(values("y", R"(
    a = Constant <value = uint8[2, 2] {1, 2, 3, 4}> ()  b = Constant <value = uint8[2, 3] {1, 2, 3, 4, 5, 6}> ()
    sa = Constant <value = float[2] {1, 2}> ()  za = Constant <value = uint8[2] {0, 1}> ()
    sb = Constant <value = float[3] {1, 2, 1}> ()  zb = Constant <value = uint8[3] {0, 1, 2}> ()
    sy = Constant <value = float[2] {1, 4}> ()  zy = Constant <value = uint8[2] {3, 5}> ()
    q = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy))" +
                                  y)[0],
                  Tensor::of<int32_t>({2, 3}, {12, 21, 12, 12, 19, 12}));
  // A grid of one element has its centre.
  check_identical(values("y", R"(
    t = Constant <value = float[1, 2, 3] {1, 0, 0, 0, 1, 0}> ()
    sizes = Constant <value = int64[4] {1, 1, 1, 3}> ()
    q = AffineGrid <align_corners = 1> (t, sizes))" +
                                  y)[0],
                  Tensor::of<int32_t>({1, 1, 3, 2}, {-1, 0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace leat::testing
