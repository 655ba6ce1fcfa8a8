// Ops that become others when a graph is loaded: their values, gradients, and refusals.
#include "ops/text/composites.h"

#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "ops/text/refused_ops.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

// The output of a graph "y = NODE" with one input x.
Tensor evaluate(const std::string& type, const std::string& node, const Tensor& x) {
  const std::string text =
      cat("<ir_version: 10, opset_import: [\"\" : 20]>\ng (", type, " x) => (",
          dtype_name(x.dtype()), "[", join(x.shape(), ","), "] y) {\n  ", node, "\n}\n");
  INFO(text);
  Graph graph = must(parse_graph(text, test_catalogue(), "g"));
  must(validate(graph));
  return must(interpret(graph, {{graph.inputs()[0], x}}, graph.outputs()))[0];
}

Status refusal(const std::string& node) {
  const std::string text =
      cat("<ir_version: 10, opset_import: [\"\" : 20]>\ng (float[2] x) => (float[2] y) {\n  ", node,
          "\n}\n");
  return parse_graph(text, test_catalogue(), "g").status();
}

TEST_CASE("activations that are composites have ONNX's values") {
  const Tensor x = Tensor::of<float>({5}, {-4, -1, 0, 1, 4});
  const auto y = [&](const std::string& node) { return evaluate("float[5]", "y = " + node, x); };
  check_close(y("HardSwish (x)"), Tensor::of<float>({5}, {0, -1.0f / 3, 0, 2.0f / 3, 4}));
  check_close(y("Swish (x)"),
              Tensor::of<float>({5}, {-0.07194484f, -0.26894143f, 0, 0.73105860f, 3.9280552f}));
  check_close(y("Mish (x)"),
              Tensor::of<float>({5}, {-0.07259175f, -0.30340147f, 0, 0.86509836f, 3.9974129f}));
  check_close(y("Selu (x)"),
              Tensor::of<float>({5}, {-1.7258986f, -1.1113307f, 0, 1.0507010f, 4.2028041f}));
  check_close(y("Celu <alpha = 2.0> (x)"),
              Tensor::of<float>({5}, {-1.7293295f, -0.78693867f, 0, 1, 4}));
  check_close(y("ThresholdedRelu <alpha = 1.0> (x)"), Tensor::of<float>({5}, {0, 0, 0, 0, 4}));
  check_close(y("Softsign (x)"), Tensor::of<float>({5}, {-0.8f, -0.5f, 0, 0.5f, 0.8f}));
  check_close(y("Shrink <lambd = 2.0, bias = 0.5> (x)"),
              Tensor::of<float>({5}, {-3.5f, 0, 0, 0, 3.5f}));
  check_close(y("Hardmax <axis = 0> (x)"), Tensor::of<float>({5}, {0, 0, 0, 0, 1}));
}

TEST_CASE("composites keep sizes of 0") {
  const auto shape = [](const std::string& node, const Shape& of) {
    const std::string type = cat("float[", join(of, ","), "]");
    return evaluate(type, "s = Constant <value = float[2] {1, 2}> ()  y = " + node,
                    Tensor(DType::f32, of))
        .shape();
  };
  CHECK(shape("InstanceNormalization (x, s, s)", {0, 2, 3}) == Shape({0, 2, 3}));
  CHECK(shape("GroupNormalization <num_groups = 1> (x, s, s)", {0, 2, 3}) == Shape({0, 2, 3}));
  CHECK(shape("GroupNormalization <num_groups = 1> (x, s, s)", {3, 2, 4, 0}) ==
        Shape({3, 2, 4, 0}));
  CHECK(shape("RMSNormalization (x, s)", {0, 1, 2}) == Shape({0, 1, 2}));
  CHECK(shape("RMSNormalization <axis = -3> (x, s)", {0, 1, 2}) == Shape({0, 1, 2}));
  CHECK(shape("LRN <size = 2> (x)", {0, 2, 1, 3}) == Shape({0, 2, 1, 3}));
}

// The output of Einsum for x [2,2,2] with elements 0 to 7.
Tensor einsum(const std::string& equation, int operands) {
  std::vector<float> values;
  for (int i = 0; i < 8; ++i) values.push_back(static_cast<float>(i));
  const Tensor x = Tensor::of<float>({2, 2, 2}, values);
  std::vector<std::string> inputs(static_cast<size_t>(operands), "x");
  const std::string text = cat("<ir_version: 10, opset_import: [\"\" : 20]>\n",
                               "g (float[2,2,2] x) => (y) {\n  y = Einsum <equation = \"", equation,
                               "\"> (", join(inputs, ", "), ")\n}\n");
  INFO(text);
  Graph graph = must(parse_graph(text, test_catalogue(), "g"));
  must(validate(graph));
  return must(interpret(graph, {{graph.inputs()[0], x}}, graph.outputs()))[0];
}

TEST_CASE("Einsum sums, transposes and multiplies") {
  check_identical(einsum("abc->", 1), Tensor::scalar(28.f));
  check_identical(einsum("abc->ca", 1), Tensor::of<float>({2, 2}, {2, 10, 4, 12}));
  check_identical(einsum("bca", 1), einsum("bca->abc", 1));
  // One label of the batch, two of rows, one inner one.
  check_identical(einsum("abc,adc->abd", 2),
                  Tensor::of<float>({2, 2, 2}, {1, 3, 3, 13, 41, 59, 59, 85}));
  check_identical(einsum("abc,dbc->ad", 2), Tensor::of<float>({2, 2}, {14, 38, 38, 126}));
  // No inner label, and labels that one operand alone has.
  check_identical(einsum("abc, abc -> abc", 2),
                  Tensor::of<float>({2, 2, 2}, {0, 1, 4, 9, 16, 25, 36, 49}));
  check_identical(einsum("abc,adc->bd", 2), Tensor::of<float>({2, 2}, {42, 62, 62, 98}));
  check_identical(einsum("abc,def->af", 2), Tensor::of<float>({2, 2}, {72, 96, 264, 352}));
  check_identical(einsum("abc,abd,abe->a", 3), Tensor::of<float>({2}, {126, 2926}));
}

TEST_CASE("composites compute in the type of their operand") {
  const Tensor x = Tensor::of<double>({2}, {0.1, -0.3});
  const Tensor y = evaluate("double[2]", "y = Mish (x)", x);
  CHECK(y.dtype() == DType::f64);
  CHECK(y.at(0) == Approx(0.0631794175).epsilon(1e-7));
}

TEST_CASE("the graph keeps the names of the file, and none of the parts") {
  const Graph graph = must(parse_graph(
      "<ir_version: 10, opset_import: [\"\" : 20]>\ng (float[N] x) => (float[N] y) {\n  y = Mish "
      "(x)\n}\n",
      test_catalogue(), "g"));
  CHECK(graph.value_name(graph.outputs()[0]) == "y");
  for (NodeId id = 0; id < graph.nodes(); ++id)
    CHECK_FALSE(is_composite("", graph.node(id).op->full_name()));
}

TEST_CASE("no op of the catalogue is a composite, too") {
  for (const auto& [op, since] : composite_ops()) {
    INFO(op);
    CHECK(since >= 1);
    CHECK(test_catalogue().find(op) == nullptr);
    const size_t dot = op.rfind('.');
    const std::string domain = dot == std::string::npos ? "" : op.substr(0, dot);
    CHECK(is_composite(domain, dot == std::string::npos ? op : op.substr(dot + 1)));
    CHECK_FALSE(is_composite("leat", op));
  }
}

TEST_CASE("an op that is refused is neither a composite nor in the catalogue") {
  std::string_view before;
  for (const auto& [op, reason] : refused_ops()) {
    INFO(op);
    CHECK(before < op);
    before = op;
    CHECK(test_catalogue().find(op) == nullptr);
    CHECK_FALSE(is_composite("", op));
    CHECK(refusal_of(op) == reason);
  }
  CHECK(refusal_of("Relu").empty());
}

TEST_CASE("a composite that is wrong is refused at its place") {
  CHECK(refusal("y = Einsum <equation = \"a->aa\"> (x)")
            .message()
            .find("different ones of them for those of the output") != std::string::npos);
  CHECK(refusal("y = Einsum <equation = \"...a,...->a\"> (x, x)")
            .message()
            .find("expected '...' in front of the labels of a single operand and of the output") !=
        std::string::npos);
  CHECK(refusal("y = Einsum <equation = \"...ab->...ba\"> (x)")
            .message()
            .find("in the order of the operand's behind '...'") != std::string::npos);
  CHECK(refusal(cat("y = Einsum <equation = \"", std::string(100'000, 'i'), "\"> (x)"))
            .message()
            .find("expected at most 8 axes of an operand") != std::string::npos);
  for (const char* sizes : {"2,3", "1,3", "3,1"}) {
    Graph graph =
        must(parse_graph(cat("<ir_version: 10, opset_import: [\"\" : 23]>\ng (float[", sizes,
                             "] x) => (y) { y = Einsum <equation = \"ii->i\"> (x) }"),
                         test_catalogue(), "g.onnxtxt"));
    CHECK_FALSE(validate(graph).ok());
  }
  CHECK(refusal("y = ai.onnx.preview.training.Adam (x, x, x)")
            .message()
            .find("expected R, T and 4 operands for each tensor, received 3 operands in all") !=
        std::string::npos);
  CHECK(refusal("y = Einsum <equation = \"a,b->a\"> (x)").message().find("expected 1 operands") !=
        std::string::npos);
  CHECK(refusal("y = Mish ()").message().find("expected at least 1 inputs, received 0") !=
        std::string::npos);
  CHECK(refusal("y = Mish (x, x)")
            .message()
            .find("Mish 'y': expected at most 1 inputs, received 2") != std::string::npos);
  CHECK(refusal("y = Mish <alpha = 1.0> (x)").message().find("unknown attribute 'alpha'") !=
        std::string::npos);
  CHECK(refusal("y = Swish <alpha = \"a\"> (x)").message().find("expected a float, received") !=
        std::string::npos);
  CHECK(refusal("y, z = Mish (x)").message().find("expected one output, received 2") !=
        std::string::npos);
  CHECK(refusal("y = DepthToSpace (x)").message().find("blocksize: expected at least 1") !=
        std::string::npos);
}

TEST_CASE("an error in a part of a composite names the composite of the file") {
  const auto message = [](const std::string& text) {
    const auto graph =
        parse_graph("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n" + text,
                    test_catalogue(), "g");
    const auto expanded = graph.ok() ? expand_layers(*graph) : graph;
    REQUIRE(!expanded.ok());
    return expanded.status().message();
  };
  CHECK(message("g (float[N,4] x, float[3] s) => (y) { y = PRelu (x, s) }") ==
        "PRelu 'y' (its part Mul #3): shapes do not broadcast: [N,4] and [3]");
  CHECK(message("g (int64[2] x) => (y) { [act] y = Celu (x) }")
            .starts_with("Celu 'act' (its part Elu #3): input 0 'X': expected one of float"));
  // In a region, which is copied, and beside a layer.
  CHECK(message("g (float[4] x, float[3] s, bool c) => (y) {\n"
                "  y = If (c) <then_branch = a () => (p) { p = PRelu (x, s) },\n"
                "              else_branch = b () => (q) { q = Neg (x) }>\n}")
            .find("PRelu 'p' of y/then (its part Mul #") != std::string::npos);
}

}  // namespace
}  // namespace leat::testing
