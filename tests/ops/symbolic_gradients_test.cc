// Gradients in graphs whose sizes are symbols: added nodes must have the types of their values, now
// and when the graph is validated again.
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "ops/graph/gradients.h"
#include "ops/graph/interpret.h"
#include "tests/catch.h"

namespace leat {
namespace {

const Catalogue& standard_ops() {
  static const Catalogue kOps = standard_catalogue();
  return kOps;
}

struct Symbolic {
  Graph graph{standard_ops()};
  GraphBuilder g{graph};

  // Sizes below 0 are distinct symbols.
  ValueId input(const std::string& name, std::initializer_list<int64_t> sizes) {
    SymbolicShape shape;
    for (const int64_t size : sizes) {
      shape.push_back(size >= 0 ? Dim::of(size) : Dim::of_symbol(graph.symbol(cat("N", -size))));
    }
    return graph.add_input(name, {ValueKind::tensor, DType::f32, shape});
  }
  std::string text(ValueId value) const { return graph.type_text(graph.value(value).type); }
  // Adds dy/dx, and checks that it has x's type.
  ValueId gradient(ValueId y, ValueId x) {
    REQUIRE(g.status().ok());
    Inference inference(graph);
    REQUIRE(inference.run().ok());
    const ValueId xs[] = {x};
    const auto made = add_gradients(inference, y, xs);
    INFO(made.status());
    REQUIRE(made.ok());
    REQUIRE((*made)[0] != kNone);
    const ValueId dx = (*made)[0];
    CHECK(text(dx) == text(x));
    const Status again = validate(graph);
    INFO(again);
    CHECK(again.ok());
    CHECK(text(dx) == text(x));
    return dx;
  }
};

TEST_CASE("the gradient of a loss of symbolic shape has its shape, also when validated again") {
  Symbolic s;
  const ValueId x = s.input("x", {-1, 3}), y = s.g.op("Exp", {x});
  const ValueId dx = s.gradient(y, x);
  Tensor at = Tensor::of<float>({2, 3}, {0, 1, 2, NAN, INFINITY, 0});
  const auto result = interpret(s.graph, {{x, at}}, {y, dx});
  INFO(result.status());
  REQUIRE(result.ok());
  CHECK((*result)[0].to_string() == (*result)[1].to_string());  // d exp = exp
}

TEST_CASE("a node that gets one more output keeps the symbols of those it had") {
  Symbolic s;
  // Splits a size that may be odd into two parts, which are two new symbols. The second part comes
  // later.
  const ValueId x = s.input("x", {2, -1});
  const auto split =
      s.graph.add_node("", "Split", {x}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, 2);
  REQUIRE(split.ok());
  s.graph.node(*split).outputs[1] = kNone;
  Inference inference(s.graph);
  REQUIRE(inference.run().ok());
  const ValueId first = s.graph.node(*split).outputs[0];
  const std::string before = s.text(first);
  const ValueId second = s.graph.ensure_output(*split, 1);
  REQUIRE(inference.infer_more(*split).ok());
  CHECK(s.text(first) == before);
  CHECK(s.text(second).starts_with("float[2,_"));
  CHECK(s.text(second) != before);
}

TEST_CASE("axes that are fed are refused with the input's name") {
  for (const char* op : {"ReduceSum", "ReduceMean"}) {
    Symbolic s;
    const ValueId x = s.input("x", {2, 3});
    const ValueId axes = s.g.input("axes", DType::i64, Shape{1});
    s.g.op(op, {x, axes});
    CHECK(s.g.status().message().find(cat(op,
                                          " #0: input 1 'axes': expected values that are known "
                                          "before anything runs")) != std::string::npos);
  }
}

TEST_CASE("ops of steps have a gradient of zero") {
  for (const char* op : {"Ceil", "Floor", "Round", "Sign"}) {
    INFO(op);
    Symbolic s;
    const ValueId x = s.input("x", {2}), z = s.input("z", {-1});
    const ValueId dx = s.gradient(s.g.op(op, {s.g.op("Exp", {x})}), x);
    const ValueId dz = s.gradient(s.g.op(op, {s.g.op("Exp", {z})}), z);
    const auto result = interpret(s.graph,
                                  {{x, Tensor::of<float>({2}, {0.5, NAN})},
                                   {z, Tensor::of<float>({3}, {0.5, -INFINITY, NAN})}},
                                  {dx, dz});
    INFO(result.status());
    REQUIRE(result.ok());
    CHECK((*result)[0].identical(Tensor::of<float>({2}, {0, 0})));
    CHECK((*result)[1].identical(Tensor::of<float>({3}, {0, 0, 0})));
  }
}

}  // namespace
}  // namespace leat
