// The pass that lets a step compute in 16 bits, against golden text and by its rules.
#include "scheduler/graph/autocast.h"

#include <set>

#include "devices/base/text.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/train_graph.h"
#include "tests/labelled_reader.h"
#include "tests/scheduler/golden_text.h"
#include "tests/scheduler/scheduler_testing.h"
#include "tests/small_models.h"

namespace leat {
namespace {

constexpr const char* kHeader = "<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n";

Graph model_of(const std::string& text) {
  Graph graph =
      must(expand_layers(must(parse_graph(kHeader + text, scheduler_catalogue(), "model"))));
  must(validate(graph));
  return graph;
}

Graph cast_graph(const std::string& text, const AutocastSpec& spec) {
  Borders none;
  Graph graph = must(autocast(model_of(text), none, spec));
  must(validate(graph));
  return graph;
}

// The type of the value of that name.
DType type_of(const Graph& graph, const std::string& name) {
  const auto value = graph.find_value(name);
  REQUIRE(value.has_value());
  return graph.value(*value).type.dtype;
}

size_t count_of(const Graph& graph, std::string_view op) {
  size_t count = 0;
  for (NodeId id = 0; id < graph.nodes(); ++id) count += is_op(graph.node(id), op);
  return count;
}

// A block of a transformer, with what mixed precision must tell apart.
constexpr const char* kBlock = R"(
block (float[N,4,8] x, float[N,4,4] mask) => (float[N,4,8] y) {
  scale = Constant <value = float {0.5}> ()
  n = leat.LayerNorm (x)
  q = leat.Dense <units = 8> (n)
  k = leat.Dense <units = 8> (n)
  kt = Transpose <perm = [0,2,1]> (k)
  s = MatMul (q, kt)
  scaled = Mul (s, scale)
  masked = Add (scaled, mask)
  p = Softmax (masked)
  v = MatMul (p, n)
  h = leat.Dense <units = 8, activation = "relu"> (v)
  y = Add (h, x)
}
)";

}  // namespace

TEST_CASE("the casts of a transformer's block are as the golden file says", "[golden]") {
  check_golden("autocast_block.txt", print_graph(cast_graph(kBlock, {DType::bf16, {}, {}})));
}

TEST_CASE("the casts of a training step in float16 are as the golden file says", "[golden]") {
  TrainSpec spec;
  spec.input.reader = testing::labelled_reader("npy", "x.npy", "y.npy", {1, 8, 8});
  spec.global_batch = 32;
  spec.shards = 2;
  spec.accuracy = false;
  spec.autocast.compute = DType::f16;
  spec.loss_scale.kind = LossScaleSpec::Kind::dynamic;
  const Graph model =
      must(expand_layers(must(parse_graph(kTinyDense, scheduler_catalogue(), "tiny.onnxtxt"))));
  check_golden("autocast_train.txt", print_graph(must(make_train_graph(model, spec)).graph));
}

TEST_CASE("products compute in 16 bits, others follow them, and the rest stays float32") {
  const Graph graph = cast_graph(kBlock, {DType::bf16, {}, {}});
  for (const char* name : {"q", "kt", "s", "scaled", "v", "h"}) {
    INFO(name);
    CHECK(type_of(graph, name) == DType::bf16);
  }
  // The mask and x are float32, and so is what is added to them.
  for (const char* name : {"n", "masked", "p", "y"}) {
    INFO(name);
    CHECK(type_of(graph, name) == DType::f32);
  }
}

TEST_CASE("a value is cast once, however many nodes read it") {
  const Graph graph = cast_graph(R"(
twice (float[N,8] x) => (float[N,8] y) {
  r = leat.Variable <name = "w", shape = [8,8]> ()
  w = leat.Read (r)
  t = Transpose (w)
  a = MatMul (x, w)
  b = MatMul (x, t)
  c = MatMul (a, w)
  y = Sum (a, b, c)
}
)",
                                 {DType::f16, {}, {}});
  // x, w and y: the weight before its transposition.
  CHECK(count_of(graph, "Cast") == 3);
  CHECK(type_of(graph, "t") == DType::f16);
  CHECK(type_of(graph, "w") == DType::f32);
}

TEST_CASE("a table that is looked up by rows is not cast as a whole") {
  const Graph graph = cast_graph(R"(
lookup (int64[N,4] ids) => (float[N,4,8] y) {
  r = leat.Variable <name = "table", shape = [100,8]> ()
  table = leat.Read (r)
  rows = Gather (table, ids)
  w = Constant <value = float[8,8] {1,0,0,0,0,0,0,0, 0,1,0,0,0,0,0,0, 0,0,1,0,0,0,0,0, 0,0,0,1,0,0,0,0, 0,0,0,0,1,0,0,0, 0,0,0,0,0,1,0,0, 0,0,0,0,0,0,1,0, 0,0,0,0,0,0,0,1}> ()
  y = MatMul (rows, w)
}
)",
                                 {DType::bf16, {}, {}});
  CHECK(type_of(graph, "rows") == DType::f32);
}

TEST_CASE("statistics of a batch normalization stay float32") {
  const Graph graph = cast_graph(R"(
norm (float[N,4,8,8] x) => (float[N,4,8,8] y) {
  c = leat.Conv2D <filters = 4, kernel = 3> (x)
  b = leat.BatchNorm (c)
  y = Relu (b)
}
)",
                                 {DType::bf16, {}, {}});
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!is_op(node, "BatchNormalization")) continue;
    CHECK(graph.value(node.inputs[0]).type.dtype == DType::bf16);
    for (size_t i = 1; i < 5; ++i) CHECK(graph.value(node.inputs[i]).type.dtype == DType::f32);
  }
  CHECK(count_of(graph, "BatchNormalization") == 1);
}

TEST_CASE("an attention computes in 16 bits, and its mask with it") {
  const Graph graph = cast_graph(R"(
attention (float[N,2,4,8] x, float[4,4] mask) => (float[N,2,4,8] y) {
  a = Attention (x, x, x, mask)
  y = Relu (a)
}
)",
                                 {DType::bf16, {}, {}});
  CHECK(type_of(graph, "a") == DType::bf16);
  CHECK(count_of(graph, "Cast") == 3);
}

TEST_CASE("a constant that 16 bits cannot hold keeps its readers in float32") {
  const char* const text = R"(
masked (float[N,4,4] x) => (float[N,4,4] y) {
  low = Constant <value = float {-1000000}> ()
  s = MatMul (x, x)
  m = Add (s, low)
  y = Relu (m)
}
)";
  CHECK(type_of(cast_graph(text, {DType::f16, {}, {}}), "m") == DType::f32);
  CHECK(type_of(cast_graph(text, {DType::bf16, {}, {}}), "m") == DType::bf16);
  // A divisor that must not become zero.
  std::string small = text;
  small.replace(small.find("-1000000"), 8, "1e-8");
  CHECK(type_of(cast_graph(small, {DType::f16, {}, {}}), "m") == DType::f32);
  CHECK(type_of(cast_graph(small, {DType::bf16, {}, {}}), "m") == DType::bf16);
}

TEST_CASE("patterns of ops, nodes and values change what computes in which type") {
  const auto types = [](const AutocastSpec& spec) {
    const Graph graph = cast_graph(kBlock, spec);
    std::string text;
    for (const char* name : {"n", "q", "s", "p", "h"}) {
      if (type_of(graph, name) == DType::bf16) text += name;
    }
    return text;
  };
  CHECK(types({DType::bf16, {}, {}}) == "qsh");
  CHECK(types({DType::bf16, {"MatMul"}, {}}) == "");
  CHECK(types({DType::bf16, {"q"}, {}}) == "sh");
  CHECK(types({DType::bf16, {"h*"}, {}}) == "qs");
  CHECK(types({DType::bf16, {}, {"Softmax"}}) == "qsph");
  CHECK(types({DType::bf16, {"p"}, {"Softmax"}}) == "qsh");
  CHECK(types({DType::bf16, {}, {"Layer*"}}) == "nqsh");
}

TEST_CASE("a pattern for 16 bits leaves what an attribute or a variable gives a type") {
  const Graph graph = cast_graph(R"(
net (int64[N,4] x, float[4] z) => (float[N,4] y) {
  r = leat.Variable <name = "v", shape = [4]> ()
  a = Abs (z)
  [keep] = leat.Assign (r, a)
  c = Cast <to = 1> (x)
  one = Constant <value = float {1}> ()
  s = Add (c, one)
  y = Softmax (s)
}
)",
                                 {DType::bf16, {}, {"*"}});
  CHECK(type_of(graph, "c") == DType::f32);
  CHECK(type_of(graph, "one") == DType::f32);
  CHECK(type_of(graph, "s") == DType::bf16);
}

TEST_CASE("a pattern that matches nothing is refused by name") {
  const Graph graph = model_of(kBlock);
  CHECK(check_patterns(graph, {DType::bf16, {"Softmax", "q*"}, {"MatMul"}}).ok());
  CHECK(check_patterns(graph, {DType::bf16, {"SoftMax"}, {}}).message() ==
        "precision: expected the names of ops, nodes or values of 'block', or globs that match "
        "some, received 'SoftMax', which matches none");
}

TEST_CASE("every op with a place in mixed precision exists, and has one place") {
  std::set<std::string_view> seen;
  for (const std::string_view name : listed_ops()) {
    INFO(name);
    CHECK(scheduler_catalogue().find(name) != nullptr);
    CHECK(seen.insert(name).second);
  }
  CHECK(precision_of(*scheduler_catalogue().find("Transpose")) == OpPrecision::follows);
  CHECK(precision_of(*scheduler_catalogue().find("Softmax")) == OpPrecision::wide);
  CHECK(precision_of(*scheduler_catalogue().find("leat.Read")) == OpPrecision::wide);
}

TEST_CASE("gradients of values in 16 bits come back in the type of the value") {
  const Graph graph = cast_graph(R"(
program (float[N,8] x) => (float[8,8] g, float[N,8] d) {
  r = leat.Variable <name = "w", shape = [8,8]> ()
  w = leat.Read (r)
  a = MatMul (x, w)
  l = ReduceSum <keepdims = 0> (a)
  g, d = leat.Gradients (l, w, a)
}
)",
                                 {DType::bf16, {}, {}});
  CHECK(type_of(graph, "g") == DType::f32);
  CHECK(type_of(graph, "a") == DType::bf16);
  CHECK(type_of(graph, "d") == DType::bf16);
  for (const ValueId output : graph.outputs()) CHECK(graph.value(output).type.dtype == DType::f32);
}

}  // namespace leat
