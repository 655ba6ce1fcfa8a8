// Inputs that get their values when a graph is read.
#include "ops/text/fix_inputs.h"

#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

constexpr const char* kGraph =
    "<ir_version: 10, opset_import: [\"\" : 23]>\n"
    "g (float[N, 4] x, float[N] w, int64[2] sizes, int32 k) => (float[a, b] y) {\n"
    "  y = Reshape (x, sizes)\n  z = Cast <to = 1> (k)\n  v = Mul (w, z)\n}\n";

Result<Graph> parsed(const FixedInputs& fixed) {
  return parse_graph(kGraph, test_catalogue(), "g.onnxtxt", fixed);
}

std::string refusal(const FixedInputs& fixed) {
  const auto graph = parsed(fixed);
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.status().code() == Code::invalid_argument);
  return graph.status().message();
}

TEST_CASE("a fixed input is a constant, and the sizes that follow from it are known") {
  Graph graph = must(parsed({{"sizes", Tensor::of<int64_t>({2}, {2, 6})}}));
  REQUIRE(graph.inputs().size() == 3);
  REQUIRE(validate(graph).ok());
  CHECK(graph.value(graph.outputs()[0]).type.shape.concrete() == Shape{2, 6});
}

TEST_CASE("a symbol takes the size of a fixed value everywhere") {
  const Graph graph = must(parsed({{"w", Tensor::of<float>({3}, {1, 2, 3})}}));
  CHECK(graph.value(graph.inputs()[0]).type.shape.concrete() == Shape{3, 4});
  CHECK_THAT(refusal({{"w", Tensor::of<float>({3}, {1, 2, 3})}, {"x", Tensor(DType::f32, {2, 4})}}),
             Catch::Contains("fixed input 'x': expected a value of the shape [N,4]"));
}

TEST_CASE("a size that a fixed symbol makes too large is refused") {
  const auto graph = parse_graph(
      "<ir_version: 10, opset_import: [\"\" : 23]>\n"
      "g (float[N] w, float[\"4611686018427387904*N\"] x) => (y) { y = Abs (x) }",
      test_catalogue(), "g.onnxtxt", {{"w", Tensor::of<float>({3}, {1, 2, 3})}});
  CHECK_THAT(graph.status().message(), Catch::Contains("is too large where N is 3"));
}

TEST_CASE("a fixed value becomes one of the input's type, if it has it") {
  const Graph graph = must(parsed({{"k", Tensor::scalar<double>(7)}}));
  const Tensor* value = nullptr;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->name == "Constant") value = &std::get<Tensor>(node.attrs.find("value")->second);
  }
  REQUIRE(value);
  check_identical(*value, Tensor::scalar<int32_t>(7));
  for (const double lost : {7.5, 3e9, -1e300})
    CHECK_THAT(refusal({{"k", Tensor::scalar<double>(lost)}}),
               Catch::Contains("fixed input 'k': expected numbers of the type int32, received one "
                               "that it lacks"));
  CHECK_THAT(refusal({{"k", Tensor::scalar<int64_t>(int64_t{1} << 40)}}),
             Catch::Contains("expected numbers of the type int32"));
}

TEST_CASE("a value for no input, or of another shape, is refused with its name") {
  CHECK_THAT(refusal({{"size", Tensor::scalar<int64_t>(1)}}),
             Catch::Contains("g.onnxtxt: expected an input to fix, received 'size' (did you mean "
                             "'sizes'?); the graph has 'x', 'w', 'sizes', 'k'"));
  CHECK_THAT(refusal({{"sizes", Tensor::of<int64_t>({3}, {1, 2, 3})}}),
             Catch::Contains("g.onnxtxt: fixed input 'sizes': expected a value of the shape [2], "
                             "received [3]"));
}

TEST_CASE("values are read from texts") {
  check_identical(must(parse_fixed_value("12")), Tensor::scalar<int64_t>(12));
  check_identical(must(parse_fixed_value(" -1e3 ")), Tensor::scalar<double>(-1000));
  check_identical(must(parse_fixed_value("true")), Tensor::scalar<bool>(true));
  check_identical(must(parse_fixed_value("[]")), Tensor(DType::i64, {0}));
  check_identical(must(parse_fixed_value("[1, 2.5]")), Tensor::of<double>({2}, {1, 2.5}));
  check_identical(must(parse_fixed_value("[[1,2],[3,4],[5,6]]")),
                  Tensor::of<int64_t>({3, 2}, {1, 2, 3, 4, 5, 6}));
  check_identical(must(parse_fixed_value("[[], []]")), Tensor(DType::i64, {2, 0}));
  check_identical(must(parse_fixed_value("9223372036854775807")),
                  Tensor::scalar<int64_t>(std::numeric_limits<int64_t>::max()));
  for (const char* text : {"", "x", "1 2", "[1", "[1,]", "[1, [2]]", "[[1], 2]", "[[1, 2], [3]]",
                           "[[1], []]", "[true, 1]", "[[[[[[[[[[[1]]]]]]]]]]]", "1]", "nan x"}) {
    INFO(text);
    const auto value = parse_fixed_value(text);
    CHECK_FALSE(value.ok());
  }
}

}  // namespace
}  // namespace leat::testing
