#include <cmath>
#include <cstdlib>
#include <fstream>

#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/catch.h"
#include "tests/ops/random_graph.h"

using namespace leat;

namespace {

Graph reparse(const std::string& text, const Catalogue& ops) {
  Result<Graph> graph = parse_graph(text, ops, "printed");
  INFO(text);
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  return std::move(graph).value();
}

}  // namespace

TEST_CASE("a printed graph parses back equal and prints the same again") {
  const Catalogue ops = text_catalogue();
  for (unsigned seed = 0; seed < 400; ++seed) {
    Graph made = testing::GraphMaker(ops, seed).graph(0);
    uint32_t next = 0;
    testing::number_sources(made, next);
    const std::string text = print_graph(made);
    INFO(text);
    const Graph read = reparse(text, ops);
    testing::check_equal(made, read);
    REQUIRE(print_graph(read) == text);
  }
}

TEST_CASE("a graph prints as people write it") {
  const Catalogue ops = text_catalogue();
  const std::string text =
      R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1], metadata_props: ["leat.bounds" : "N<=128"]>
net (float[N,4] x, bool c) => (float[N,4] y) {
  w = Constant <value = float[2] {1, 0.5}> ()
  h = Elu <alpha = 1.0> (x)
  r = leat.Variable <name = "w"> ()
  [store] = leat.Assign <device = "cpu:0"> (r, w)
  y = If (c, h) <after = ["[store]"], captures = 1, else_branch = e (%H) => (%H) {
    }, then_branch = t (k) => (p) {
      p = Relu (k)
    }>
}
)";
  std::string quoted = text;
  for (size_t at; (at = quoted.find("%H")) != std::string::npos;) quoted.replace(at, 2, "\"%0\"");
  CHECK(print_graph(reparse(quoted, ops)) == quoted);
}

TEST_CASE("nodes print in topological order whatever their ids are") {
  const Catalogue ops = text_catalogue();
  Graph g(ops);
  const NodeId late = g.add_node(*ops.find("Relu"), {kNone}, {}, 1);
  const NodeId early = g.add_node(*ops.find("leat.Anything"), {}, {}, 1);
  g.node(late).inputs[0] = g.node(early).outputs[0];
  g.set_outputs({g.node(late).outputs[0]});
  const Graph read = reparse(print_graph(g), ops);
  CHECK(read.node(0).op->name == "Anything");
  CHECK(read.node(0).source == 1);  // the source is the node's own, not the line's
  CHECK(read.node(1).inputs == read.node(0).outputs);
}

TEST_CASE("two values of one name stay two values") {
  const Catalogue ops = text_catalogue();
  Graph g(ops);
  g.add_input("x", {ValueKind::tensor, DType::f32, {}});
  g.add_input("x", {ValueKind::tensor, DType::f32, {}});
  g.add_node(*ops.find("Add"), {0, 1}, {}, 1);
  const Graph read = reparse(print_graph(g), ops);
  CHECK(read.node(0).inputs == std::vector<ValueId>{0, 1});
}

TEST_CASE("a NaN keeps its sign") {
  const Catalogue ops = text_catalogue();
  Graph g(ops);
  Tensor t = Tensor::of<float>({2}, {std::nanf(""), -std::nanf("")});
  g.add_node(*ops.find("Constant"), {}, {{"value", t}}, 1);
  const Graph read = reparse(print_graph(g), ops);
  CHECK(std::get<Tensor>(read.node(0).attrs.at("value")).identical(t));
}

TEST_CASE("a cycle is printed all the same") {
  const Catalogue ops = text_catalogue();
  Graph g(ops);
  const NodeId a = g.add_node(*ops.find("Relu"), {kNone}, {}, 1);
  g.node(a).inputs[0] = g.node(a).outputs[0];
  CHECK(print_graph(g).find("\"%0\" = Relu (\"%0\")") != std::string::npos);
}

// Writes graphs for tests/peers/onnx_text.py, which reads them with onnx.parser.
TEST_CASE("random graphs are written for a peer to read", "[.][peer]") {
  const char* folder = std::getenv("LEAT_TEXT_FOLDER");
  REQUIRE(folder != nullptr);
  const Catalogue ops = text_catalogue();
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::string path = std::string(folder) + "/" + std::to_string(seed) + ".onnxtxt";
    std::ofstream(path) << print_graph(testing::GraphMaker(ops, seed, true).graph(0));
  }
}
