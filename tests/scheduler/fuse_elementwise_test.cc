// Which elementwise ops become one, and that they keep their bits.
#include "ops/definitions/element_program.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"
#include "tests/scheduler/graph_values.h"

namespace leat {
namespace {

struct Programs {
  std::string ops;  // ascending
  std::vector<size_t> steps, results;
};
Programs programs_in(const std::string& text, std::vector<uint32_t> depth = {}) {
  INFO(text);
  Graph graph = parsed(text);
  const std::vector<Tensor> expected = values_of(graph);
  Borders borders = borders_of(graph);
  depth.resize(graph.nodes(), 0);
  Graph made = must(fuse_elementwise(std::move(graph), borders, depth, "cpu"));
  CHECK(depth.size() == made.nodes());
  made.set_outputs(borders.fetches);
  must(validate(made));
  const std::vector<Tensor> received = values_of(made);
  for (size_t o = 0; o < expected.size(); ++o) CHECK(received[o].identical(expected[o]));
  Programs out;
  std::vector<std::string> ops;
  for (NodeId id = 0; id < made.nodes(); ++id) {
    const Node& node = made.node(id);
    ops.push_back(node.op->full_name());
    if (!is_op(node, "leat.Elementwise")) continue;
    out.steps.push_back(std::get<std::vector<std::string>>(node.attrs.at("steps")).size());
    out.results.push_back(node.outputs.size());
  }
  std::sort(ops.begin(), ops.end());
  out.ops = join(ops, " ");
  return out;
}

using Counts = std::vector<size_t>;

}  // namespace

TEST_CASE("neighbouring elementwise ops become one") {
  const Programs residual =
      programs_in(R"(g (bfloat16[4,6] p, float[4,6] x, float[6] b) => (float[4,6] y) {
    wide = Cast<to = 1>(p)
    sum = Add(x, wide)
    scaled = Mul(sum, b)
    y = LeakyRelu<alpha = 0.2>(scaled)
  })");
  CHECK(residual.ops == "leat.Elementwise");
  CHECK(residual.steps == Counts{4});
  CHECK(residual.results == Counts{1});
  // A value that other nodes read is a result of its own.
  const Programs shared =
      programs_in(R"(g (float[4,6] x, float[6,2] w) => (float[4,2] p, float[4,6] y) {
    r = Relu(x)
    t = Tanh(r)
    p = MatMul(r, w)
    y = Neg(t)
  })");
  CHECK(shared.ops == "MatMul leat.Elementwise");
  CHECK(shared.steps == Counts{3});
  CHECK(shared.results == Counts{2});
}

TEST_CASE("ops of other shapes, dtypes and kinds stay") {
  CHECK(programs_in(R"(g (float[4,6] x) => (float[4,6] y) { y = Relu(x) })").ops == "Relu");
  // The second op makes more elements than the first; the third takes integers.
  CHECK(programs_in(R"(g (float[6] x, float[4,6] z) => (float[4,6] y) {
    r = Relu(x)
    y = Add(r, z)
  })")
            .ops == "Add Relu");
  CHECK(programs_in(R"(g (float[6] x) => (int64[6] y) {
    r = Relu(x)
    y = Cast<to = 7>(r)
  })")
            .ops == "Cast Relu");
  CHECK(programs_in(R"(g (double[6] x) => (double[6] y) {
    r = Relu(x)
    y = Neg(r)
  })")
            .ops == "Neg Relu");
  CHECK(programs_in(R"(g (float[6,6] x) => (float[6] y) {
    r = Relu(x)
    s = Softmax(r)
    y = ReduceSum(s)
  })")
            .ops == "ReduceSum Relu Softmax");
  // Neither of the outer axes alone: rows of rows.
  CHECK(programs_in(R"(g (float[2,3,4] x, float[2,1,4] z) => (float[2,3,4] y) {
    r = Relu(x)
    y = Add(r, z)
  })")
            .ops == "Add Relu");
  // Images, whose channels may come last, with one number for each channel.
  CHECK(programs_in(R"(g (float[2,3,4,4] x, float[3,1,1] z) => (float[2,3,4,4] y) {
    r = Relu(x)
    y = Mul(r, z)
  })")
            .ops == "Mul Relu");
}

TEST_CASE("no group waits for itself") {
  // y depends on r twice: directly, and by way of the product.
  const Programs diamond = programs_in(R"(g (float[4,4] x, float[4,4] w) => (float[4,4] y) {
    r = Relu(x)
    p = MatMul(r, w)
    y = Add(r, p)
  })");
  CHECK(diamond.ops == "Add MatMul Relu");
  // Two groups, each of which the other would wait for: a1 -> b1 and b2 -> a2.
  const Programs crossed =
      programs_in(R"(g (float[4,4] a, float[4,4] b) => (float[4,4] y, float[4,4] z) {
    a1 = Relu(a)
    b2 = Neg(b)
    b1 = Add(b2, a1)
    s = Softmax(b2)
    t = Softmax(a1)
    y = Add(a1, s)
    z = Mul(b1, t)
  })");
  CHECK(crossed.steps.size() <= 2);
  // Nodes that another device is between have other depths.
  const Programs apart = programs_in(R"(g (float[4,4] x) => (float[4,4] y) {
    r = Relu(x)
    y = Neg(r)
  })",
                                     {0, 1});
  CHECK(apart.ops == "Neg Relu");
}

TEST_CASE("ops before and behind a write stay apart") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{4});
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{4}}});
  const ValueId before = g.op("Mul", {x, x});
  const NodeId write = g.effect("leat.AssignAdd", {w, x});
  const ValueId read = g.op("leat.Read", {w});
  const ValueId behind = g.op("Add", {before, read});
  must(g.status());
  graph.node(graph.value(read).producer).after.push_back(write);
  Borders borders{{x}, {before, behind}, {write}};
  std::vector<uint32_t> depth(graph.nodes(), 0);
  const size_t nodes = graph.nodes();
  CHECK(must(fuse_elementwise(std::move(graph), borders, depth, "cpu")).nodes() == nodes);
}

TEST_CASE("nodes of a deep graph find their group") {
  // Each step adds to a value that came long before it.
  std::string body = "s0 = Softmax(x)\n";
  for (int i = 1; i < 3000; ++i) body += cat("s", i, " = Softmax(s", i - 1, ")\n");
  const Programs programs = programs_in(cat("g (float[2,2] x) => (float[2,2] y) {\n", body,
                                            "r = Relu(s2999)\n", "y = Add(r, s1)\n}"));
  CHECK(programs.steps == Counts{2});
}

TEST_CASE("a long row of ops becomes several") {
  std::string body = "v0 = Relu(x)\n";
  for (int i = 1; i < 40; ++i) body += cat("v", i, " = Tanh(v", i - 1, ")\n");
  const Programs row = programs_in(cat("g (float[8] x) => (float[8] v39) {\n", body, "}"));
  CHECK(row.steps == Counts{16, 16, 8});
  // More operands than a program has inputs.
  std::string inputs = "float[8] x", sums = "v0 = Relu(x)\n";
  for (int i = 1; i < 12; ++i) {
    inputs += cat(", float[8] a", i);
    sums += cat("v", i, " = Add(v", i - 1, ", a", i, ")\n");
  }
  const Programs many = programs_in(cat("g (", inputs, ") => (float[8] v11) {\n", sums, "}"));
  CHECK(many.steps.size() == 2);
}

TEST_CASE("a program that is wrong is refused") {
  const auto message = [](const std::string& attributes, const char* inputs = "x, x") {
    Graph graph =
        must(parse_graph(cat("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n",
                             "g (float[2] x) => (float[2] y) { y = leat.Elementwise<", attributes,
                             ">(", inputs, ") }"),
                         scheduler_catalogue(), "g"));
    return validate(graph).message();
  };
  using Catch::Matchers::Contains;
  const std::string rest = ", params = [0.0, 0.0], results = [2]";
  CHECK(message(R"(steps = ["Add 0 1 float"])" + rest).empty());
  CHECK_THAT(message(R"(steps = ["Softmax 0 float"])" + rest),
             Contains("the name of an elementwise op in step 0, received 'Softmax 0 float'"));
  CHECK_THAT(message(R"(steps = ["Add 0 float"])" + rest), Contains("2 operands and a dtype"));
  CHECK_THAT(message(R"(steps = ["Add 0 2 float"])" + rest),
             Contains("operands that are inputs or earlier steps"));
  CHECK_THAT(message(R"(steps = ["Add 0 -1 float"])" + rest),
             Contains("operands that are inputs or earlier steps"));
  CHECK_THAT(message(R"(steps = ["Add 0 1x float"])" + rest),
             Contains("operands that are inputs or earlier steps"));
  CHECK_THAT(message(R"(steps = ["Add 0 1 double"])" + rest), Contains("the dtype"));
  CHECK_THAT(message(R"(steps = ["Add 0 1 float"], params = [0.0], results = [2])"),
             Contains("params: expected two for each of 1 steps, received 1"));
  CHECK_THAT(message(R"(steps = ["Add 0 1 float"], params = [0.0, 0.0], results = [1])"),
             Contains("results: expected steps in [2, 2], received 1"));
  CHECK_THAT(message(R"(steps = ["Add 0 1 float"], params = [0.0, 0.0], results = [2, 2])"),
             Contains("received 2 twice"));
}

TEST_CASE("a program needs all of its operands") {
  Graph graph(scheduler_catalogue());
  const ValueId x = graph.add_input("x", {ValueKind::tensor, DType::f32, Shape{2}});
  const Attrs attrs{{"steps", std::vector<std::string>{"Relu 0 float", "Neg 0 float"}},
                    {"params", std::vector<double>(4)},
                    {"results", std::vector<int64_t>{1, 2}}};
  const NodeId node = must(graph.add_node("leat", "Elementwise", {x}, attrs, 2));
  graph.node(node).outputs[1] = kNone;
  CHECK_THAT(validate(graph).message(), Catch::Matchers::Contains("output 1: expected one"));
  // Inference does not count an absent input at the end: the kernel refuses it.
  const Attrs all = with_defaults(*graph.node(node).op, attrs);
  OpTypes types;
  types.attrs = &all;
  types.inputs = {{DType::f32, Shape{2}}, {}};
  types.inputs[1].present = false;
  types.outputs = {{DType::f32, Shape{2}}, {DType::f32, Shape{2}}};
  CHECK_THAT(program_operands(types).status().message(),
             Catch::Matchers::Contains("one is absent"));
}

}  // namespace leat
