#include "ops/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/gate_catalogue.h"

namespace leat {
namespace {

const Catalogue& ops() {
  static const Catalogue catalogue = testing::gate_catalogue();
  return catalogue;
}

NodeId add(Graph& graph, const std::string& op, std::vector<ValueId> inputs, int outputs = 1) {
  return graph.add_node(*ops().find(op), std::move(inputs), {}, outputs);
}
ValueId out(const Graph& graph, NodeId node, size_t i = 0) { return graph.node(node).outputs[i]; }

TEST_CASE("nodes and values get ids in order, and values know their producer") {
  Graph graph(ops());
  const ValueId x = graph.add_input("x", {ValueKind::tensor, DType::f32, {}});
  const NodeId many = add(graph, "Many", {x}, 3);
  CHECK(x == 0);
  CHECK(many == 0);
  CHECK(graph.node(many).outputs == std::vector<ValueId>{1, 2, 3});
  CHECK(graph.value(x).producer == kNone);
  CHECK(graph.value(3).producer == many);
  CHECK(graph.value(3).index == 2);
  CHECK(graph.node(many).source == many);
}

TEST_CASE("an unknown op is refused with the nearest one") {
  Graph graph(ops());
  const auto made = graph.add_node("", "Pas", {}, {}, 1);
  REQUIRE(!made.ok());
  CHECK(made.status().code() == Code::invalid_argument);
  CHECK(made.status().message().find("did you mean 'Pass'?") != std::string::npos);
  CHECK(graph.add_node("leat", "Pass", {}, {}, 1).status().code() == Code::invalid_argument);
  CHECK(graph.add_node("", "Pass", {}, {}, 1).ok());
  CHECK(graph.add_node("ai.onnx", "Pass", {}, {}, 1).ok());
}

TEST_CASE("an optional output is made when it is first asked for, once") {
  Graph graph(ops());
  const ValueId x = graph.add_input("x", {ValueKind::tensor, DType::f32, {}});
  const NodeId clip = add(graph, "Clip", {x});
  const ValueId mask = graph.ensure_output(clip, 1);
  CHECK(graph.ensure_output(clip, 1) == mask);
  CHECK(graph.ensure_output(clip, 0) == out(graph, clip));
  CHECK(graph.value(mask).producer == clip);
  CHECK(graph.value(mask).index == 1);
  graph.node(clip).outputs[0] = kNone;
  CHECK(graph.ensure_output(clip, 0) != kNone);
}

TEST_CASE("nodes and values are described by their names, else by their numbers") {
  Graph graph(ops());
  const ValueId x = graph.add_input("x", {ValueKind::tensor, DType::f32, {}});
  const NodeId pass = add(graph, "Pass", {x});
  CHECK(graph.describe(x) == "x");
  CHECK(graph.describe(out(graph, pass)) == "%1");
  CHECK(graph.describe(kNone) == "(absent)");
  CHECK(graph.describe_node(pass) == "Pass #0");
  graph.set_value_name(out(graph, pass), "y");
  CHECK(graph.describe_node(pass) == "Pass 'y'");
  graph.node(pass).name = "l1/pass";
  CHECK(graph.describe_node(pass) == "Pass 'l1/pass'");
  CHECK(graph.find_value("y") == out(graph, pass));
  CHECK_FALSE(graph.find_value("z"));
}

TEST_CASE("the same name is the same symbol, and made-up ones are new") {
  Graph graph(ops());
  const SymbolId n = graph.symbol("N");
  CHECK(graph.symbol("N") == n);
  CHECK(graph.symbol("M") != n);
  const SymbolId fresh = graph.fresh_symbol();
  CHECK(graph.fresh_symbol() != fresh);
  const SymbolId taken = graph.symbol("_5");
  const SymbolId next = graph.fresh_symbol();
  CHECK(graph.dim_text(Dim::of_symbol(next)) != graph.dim_text(Dim::of_symbol(taken)));
  CHECK(graph.shape_text({Dim::of_symbol(n), Dim::of(3), Dim::of_symbol(n, 2)}) == "[N,3,2*N]");
  CHECK(graph.type_text({ValueKind::tensor, DType::f32, {Dim::of_symbol(n)}}) == "float[N]");
  CHECK(graph.type_text({ValueKind::resource, DType::f32, {}}) == "resource float[]");
  CHECK(graph.type_text({ValueKind::token, DType::invalid, {}}) == "token");
}

TEST_CASE("the order puts nodes after their producers and their control edges, ties by id") {
  Graph graph(ops());
  const ValueId x = graph.add_input("x", {ValueKind::tensor, DType::f32, {}});
  const NodeId last = add(graph, "Pass", {x});
  const NodeId middle = add(graph, "Pass", {x});
  const NodeId first = add(graph, "Pass", {x});
  const NodeId free = add(graph, "Pass", {x});
  graph.node(last).inputs = {out(graph, middle)};
  graph.node(middle).after = {first};
  const auto order = graph.topological_order();
  REQUIRE(order.ok());
  CHECK(*order == std::vector<NodeId>{first, middle, last, free});
  CHECK(*graph.topological_order() == *order);
}

TEST_CASE("the order does not depend on how control edges are listed") {
  const auto order = [](bool reversed) {
    Graph graph(ops());
    std::vector<NodeId> before;
    const NodeId sink = add(graph, "Nothing", {}, 0);
    for (int i = 0; i < 20; ++i) before.push_back(add(graph, "Nothing", {}, 0));
    if (reversed) std::reverse(before.begin(), before.end());
    graph.node(sink).after = before;
    return *graph.topological_order();
  };
  CHECK(order(false) == order(true));
  CHECK(order(false).back() == 0);
}

TEST_CASE("a cycle is refused and its nodes are named") {
  for (const bool by_control : {false, true}) {
    Graph graph(ops());
    const NodeId start = add(graph, "Sized", {});
    const NodeId a = add(graph, "Sum", {out(graph, start)});
    const NodeId b = add(graph, "Pass", {out(graph, a)});
    const NodeId behind = add(graph, "Pass", {out(graph, b)});
    graph.node(a).name = "a";
    graph.node(b).name = "b";
    graph.node(behind).name = "behind";
    if (by_control) {
      graph.node(a).after = {b};
    } else {
      graph.node(a).inputs.push_back(out(graph, b));
    }
    const auto order = graph.topological_order();
    REQUIRE(!order.ok());
    CHECK(order.status().code() == Code::invalid_argument);
    CHECK(order.status().message().find("Sum 'a'") != std::string::npos);
    CHECK(order.status().message().find("Pass 'b'") != std::string::npos);
  }
}

TEST_CASE("a node that runs after itself is a cycle") {
  Graph graph(ops());
  const NodeId a = add(graph, "Nothing", {}, 0);
  graph.node(a).after = {a};
  CHECK(graph.topological_order().status().code() == Code::invalid_argument);
}

TEST_CASE("consumers are listed once each, ascending") {
  Graph graph(ops());
  const ValueId x = graph.add_input("x", {ValueKind::tensor, DType::f32, {}});
  const NodeId sum = add(graph, "Sum", {x, x, x});
  const NodeId clip = add(graph, "Clip", {x, kNone, out(graph, sum)});
  const auto consumers = graph.consumers();
  CHECK(consumers[x] == std::vector<NodeId>{sum, clip});
  CHECK(consumers[out(graph, sum)] == std::vector<NodeId>{clip});
  CHECK(consumers[out(graph, clip)].empty());
}

TEST_CASE("attributes are equal when their kind and their bits are") {
  const Tensor one = Tensor::of<float>({2}, {1, 2});
  CHECK(attrs_equal(int64_t{1}, int64_t{1}));
  CHECK_FALSE(attrs_equal(int64_t{1}, 1.0));
  CHECK(attrs_equal(one, one.clone()));
  CHECK_FALSE(attrs_equal(one, one.reshaped({2, 1})));
  CHECK_FALSE(attrs_equal(std::string("a"), std::string("b")));
  CHECK(attrs_equal(std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 2}));
  CHECK_FALSE(attrs_equal(0.0, -0.0));
  CHECK(attrs_equal(std::nan(""), std::nan("")));
  CHECK_FALSE(attrs_equal(std::vector<double>{1, 0.0}, std::vector<double>{1, -0.0}));
  CHECK(attrs_equal(std::vector<double>{1, 2}, std::vector<double>{1, 2}));
}

TEST_CASE("attributes are read with a default, and an int may stand for a float") {
  const Attrs attrs = {
      {"i", int64_t{3}}, {"f", 2.5}, {"s", std::string("x")}, {"is", std::vector<int64_t>{1, 2}}};
  CHECK(attr_int(attrs, "i") == 3);
  CHECK(attr_int(attrs, "f", 9) == 9);
  CHECK(attr_float(attrs, "f") == 2.5);
  CHECK(attr_float(attrs, "i") == 3.0);
  CHECK(attr_string(attrs, "s") == "x");
  CHECK(attr_string(attrs, "none", "y") == "y");
  CHECK(attr_ints(attrs, "is") == std::vector<int64_t>{1, 2});
  CHECK(has_attr(attrs, "i"));
  CHECK_FALSE(has_attr(attrs, "none"));
}

TEST_CASE("sizes are multiplied with symbols, or not at all") {
  const Dim n = Dim::of_symbol(0), m = Dim::of_symbol(1);
  CHECK(multiply(n, Dim::of(4)) == Dim::of_symbol(0, 4));
  CHECK(multiply(Dim::of(4), n) == Dim::of_symbol(0, 4));
  CHECK(multiply(n, Dim::of(0)) == Dim::of(0));
  CHECK_FALSE(multiply(n, m));
  CHECK_FALSE(multiply(Dim::of(INT64_MAX), Dim::of(2)));
}

}  // namespace
}  // namespace leat
