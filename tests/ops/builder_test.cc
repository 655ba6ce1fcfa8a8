#include "ops/graph/builder.h"

#include "ops/catalogue.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/catch.h"

namespace leat {

TEST_CASE("a model built in C++ is the model written as text") {
  const Catalogue catalogue = standard_catalogue();
  Graph built(catalogue);
  built.name = "model";
  GraphBuilder g(built);
  ValueId x = g.input("image", DType::f32, {g.batch("N"), Dim::of(1), Dim::of(8), Dim::of(8)});
  x = g.conv2d(x, {.filters = 8, .kernel = 3, .activation = Activation::relu, .name = "c1"});
  x = g.named(g.op("Flatten", {x}), "f");
  x = g.named(g.dropout(x, 0.25), "d");
  g.output(g.dense(x, {.units = 10}), "logits");
  INFO(g.status().to_string());
  REQUIRE(g.status().ok());
  const auto written = parse_graph(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
model (float[N,1,8,8] image) => (float[N,10] logits) {
  c1 = leat.Conv2D <filters = 8, kernel = 3, activation = "relu"> (image)
  f = Flatten (c1)
  d = leat.Dropout <rate = 0.25> (f)
  logits = leat.Dense <units = 10> (d)
})",
                                   catalogue, "model.onnxtxt");
  INFO((written.ok() ? "" : written.status().to_string()));
  REQUIRE(written.ok());
  const auto from_builder = expand_layers(built), from_text = expand_layers(*written);
  REQUIRE(from_builder.ok());
  REQUIRE(from_text.ok());
  CHECK(print_graph(*from_builder) == print_graph(*from_text));
}

TEST_CASE("the first mistake sticks, with the node as subject") {
  const Catalogue catalogue = standard_catalogue();
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{2, 3});
  const ValueId y = g.op("MatMul", {x, x});
  g.op("NoSuchOp", {y});
  CHECK(g.status().code() == Code::invalid_argument);
  CHECK(g.status().message().find("MatMul") != std::string::npos);
}

}  // namespace leat
