// Composites of signals and images: what they compute, and what they refuse.
#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

// A graph "y = NODE" with the input x. `constants` are nodes in front of it.
Result<Graph> graph_of(const std::string& constants, const std::string& node, const Tensor& x) {
  auto graph = parse_graph(
      cat("<ir_version: 10, opset_import: [\"\" : 23]>\ng (", dtype_name(x.dtype()), "[",
          join(x.shape(), ","), "] x) => (y) {\n", constants, "\n  y = ", node, "\n}\n"),
      test_catalogue(), "g");
  if (graph.ok()) LEAT_RETURN_IF_ERROR(validate(*graph));
  return graph;
}

Tensor value_of(const std::string& constants, const std::string& node, const Tensor& x) {
  INFO(constants << node);
  const Graph graph = must(graph_of(constants, node, x));
  return must(interpret(graph, {{graph.inputs()[0], x}}, graph.outputs()))[0];
}

TEST_CASE("CenterCropPad has the smaller half of an odd number in front") {
  const Tensor x = counting(DType::f32, {5});
  const auto sized = [&](int64_t size) {
    return value_of(cat("n = Constant <value = int64[1] {", size, "}> ()"), "CenterCropPad (x, n)",
                    x);
  };
  check_identical(sized(2), Tensor::of<float>({2}, {1, 2}));
  check_identical(sized(3), Tensor::of<float>({3}, {1, 2, 3}));
  check_identical(sized(5), x);
  check_identical(sized(8), Tensor::of<float>({8}, {0, 0, 1, 2, 3, 4, 0, 0}));
  check_identical(value_of("n = Constant <value = int64[1] {1}> ()",
                           "CenterCropPad <axes = [-1]> (x, n)", counting(DType::i32, {2, 3})),
                  Tensor::of<int32_t>({2, 1}, {1, 4}));
}

TEST_CASE("MaxUnpool puts elements back, with zeros around them") {
  const Tensor x = Tensor::of<float>({1, 1, 2, 2}, {1, 2, 3, 4});
  const std::string places = "i = Constant <value = int64[1, 1, 2, 2] {5, 7, 13, 15}> () ",
                    attrs = "<kernel_shape = [2, 2], strides = [2, 2]>";
  check_identical(
      value_of(places, "MaxUnpool " + attrs + " (x, i)", x),
      Tensor::of<float>({1, 1, 4, 4}, {0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4}));
  check_identical(value_of(places + "n = Constant <value = int64[4] {1, 1, 4, 5}> ()",
                           "MaxUnpool " + attrs + " (x, i, n)", x),
                  Tensor::of<float>({1, 1, 4, 5},
                                    {0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 0}));
  CHECK_THAT(graph_of(places, "MaxUnpool <kernel_shape = [2, 2], strides = [2]> (x, i)", x)
                 .status()
                 .message(),
             Catch::Contains("expected a kernel_shape, as many strides and twice as many pads"));
}

TEST_CASE("STFT transforms the frames of a signal") {
  const Tensor x = Tensor::of<float>({1, 5, 1}, {1, 2, 3, 4, 5});
  const std::string numbers =
      "n = Constant <value = int64 {2}> () l = Constant <value = int64 {2}> () "
      "w = Constant <value = float[2] {1, 0.5}> () ";
  // The last element is in no frame.
  check_close(value_of(numbers, "STFT (x, n, , l)", x),
              Tensor::of<float>({1, 2, 2, 2}, {3, 0, -1, 0, 7, 0, -1, 0}));
  check_close(value_of(numbers, "STFT <onesided = 0> (x, n, w)", x),
              Tensor::of<float>({1, 2, 2, 2}, {2, 0, 0, 0, 5, 0, 1, 0}));
  // Without a length, the whole signal is a frame.
  CHECK(value_of(numbers, "STFT (x, n)", x).shape() == Shape{1, 1, 3, 2});
  CHECK(value_of("n = Constant <value = int64 {2}> () l = Constant <value = int64 {6}> ()",
                 "STFT (x, n, , l)", x)
            .shape() == Shape{1, 0, 4, 2});
  CHECK_THAT(graph_of(numbers, "STFT (x, n)", Tensor(DType::f32, {1, 5, 2})).status().message(),
             Catch::Contains("expected real numbers, since onesided is 1"));
}

TEST_CASE("MelWeightMatrix has triangles along the mel scale") {
  const auto matrix = [](int64_t triangles, int64_t length, int64_t rate, int low, int high,
                         const std::string& attrs) {
    const auto whole = [](const char* name, int64_t value) {
      return cat(name, " = Constant <value = int64 {", value, "}> () ");
    };
    return value_of(cat(whole("b", triangles), whole("l", length), whole("r", rate),
                        "f = Constant <value = float {", low, "}> () ",
                        "t = Constant <value = float {", high, "}> ()"),
                    "MelWeightMatrix " + attrs + " (b, l, r, f, t)", Tensor(DType::f32, {1}));
  };
  check_close(matrix(3, 8, 8000, 0, 4000, ""),
              Tensor::of<float>({5, 3}, {1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  check_close(matrix(3, 16, 16000, 100, 7000, ""),
              Tensor::of<float>({9, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0.5f, 0, 0,
                                         0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0}));
  CHECK(matrix(2, 8, 8000, 0, 4000, "<output_datatype = 11>").dtype() == DType::f64);
}

TEST_CASE("CausalConvWithState goes on where its state ends") {
  const Tensor x = Tensor::of<float>({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const std::string weights =
      "w = Constant <value = float[2, 1, 3] {1, 10, 100, 1, 0, -1}> () "
      "b = Constant <value = float[2] {0.5, 0}> () "
      "p = Constant <value = float[1, 2, 2] {7, 8, 9, 10}> () ";
  check_close(value_of(weights, "CausalConvWithState (x, w)", x),
              Tensor::of<float>({1, 2, 4}, {100, 210, 321, 432, -5, -6, -2, -2}));
  check_close(value_of(weights, "CausalConvWithState (x, w, b, p)", x),
              Tensor::of<float>({1, 2, 4}, {187.5f, 218.5f, 321.5f, 432.5f, 4, 4, -2, -2}));
  const auto state_of = [&](const std::string& length, const std::string& past) {
    return value_of(weights +
                        "s = Constant <value = int64[1] {0}> () e = Constant <value = "
                        "int64[1] {" +
                        length +
                        "}> () a = Constant <value = int64[1] {2}> () "
                        "c = Slice (x, s, e, a) o, t = CausalConvWithState (c, w, , " +
                        past + ")",
                    "Identity (t)", x);
  };
  check_identical(state_of("4", ""), Tensor::of<float>({1, 2, 2}, {3, 4, 7, 8}));
  check_identical(state_of("1", "p"), Tensor::of<float>({1, 2, 2}, {8, 1, 10, 5}));
  check_identical(state_of("1", ""), Tensor::of<float>({1, 2, 2}, {0, 1, 0, 5}));
  CHECK_THAT(
      graph_of(weights, "CausalConvWithState <activation = \"relu\"> (x, w)", x).status().message(),
      Catch::Contains("activation: expected none, silu or swish, received 'relu'"));
}

TEST_CASE("composites of images and signals know their sizes beside a symbolic batch") {
  const auto shape_of_y = [](const std::string& inputs, const std::string& nodes) {
    INFO(nodes);
    Graph graph = must(parse_graph(cat("<ir_version: 10, opset_import: [\"\" : 23]>\ng (", inputs,
                                       ") => (y) {\n  ", nodes, "\n}\n"),
                                   test_catalogue(), "g"));
    must(validate(graph));
    return graph.type_text(graph.value(graph.outputs()[0]).type);
  };
  CHECK(shape_of_y("float[N,3,30,40] x",
                   "n = Constant <value = int64[2] {32, 32}> ()\n"
                   "  y = CenterCropPad <axes = [2, 3]> (x, n)") == "float[N,3,32,32]");
  CHECK(shape_of_y("float[N,3,30,40] x, int64[N,3,30,40] i",
                   "y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i)") ==
        "float[N,3,60,80]");
  CHECK(shape_of_y("float[N,16000,1] x, float[400] w",
                   "n = Constant <value = int64 {160}> ()\n  y = STFT (x, n, w)") ==
        "float[N,98,201,2]");
  CHECK(shape_of_y("float[N,4,30,40] x, float[6,4,3,3] w, float[N,18,28,38] o",
                   "y = DeformConv (x, w, o)") == "float[N,6,28,38]");
  CHECK(shape_of_y("float[N,4,L] x, float[4,1,3] w", "y, t = CausalConvWithState (x, w)") ==
        "float[N,4,L]");
}

TEST_CASE("DeformConv without offsets is a convolution") {
  const Tensor x = random_tensor(DType::f32, {2, 4, 5, 6}, 1);
  const std::string weights =
      "n = Constant <value = int64[4] {4, 2, 2, 3}> () m = Constant <value = int64[4] {2, 12, 3, "
      "6}> "
      "() w = ConstantOfShape <value = float[1] {0.5}> (n) o = ConstantOfShape (m) "
      "b = Constant <value = float[4] {1, 2, 3, 4}> () ";
  const std::string attrs = "<group = 2, strides = [2, 1], pads = [1, 1, 0, 1]> ";
  check_close(value_of(weights, "DeformConv " + attrs + "(x, w, o, b)", x),
              value_of(weights, "Conv " + attrs + "(x, w, b)", x), 1e-5, 1e-5);
  CHECK_THAT(graph_of(weights, "DeformConv <group = 0> (x, w, o)", x).status().message(),
             Catch::Contains("group: expected at least 1, received 0"));
  CHECK_THAT(graph_of(weights, "DeformConv (x, w, o)", x).status().message(),
             Catch::Contains("expected an offset for each axis, element and window"));
}

}  // namespace
}  // namespace leat::testing
