// The first values of variables in the model of a job, which are given back once hosts have them.
#include <array>
#include <memory>
#include <optional>

#include "daemon/training/model.h"
#include "ops/catalogue.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr const char* kOneVariable = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
one (float[N,4] x) => (float[N,4] y) {
  r = leat.Variable <name = "w", shape = [4], dtype = "float"> ()
  first = Constant <value = float[4] {1, 2, 3, 4}> ()
  = leat.Initialize (r, first)
  w = leat.Read (r)
  other = Constant <value = float[4] {5, 6, 7, 8}> ()
  a = Mul (x, w)
  y = Add (a, other)
}
)";

TEST_CASE("the initial values of a model are given back, and its other constants stay") {
  const Catalogue catalogue = standard_catalogue();
  const Graph graph = must(parse_graph(kOneVariable, catalogue, "one"));
  Model model{graph, graph, {}, {}, {}, 20};
  // The value is in memory whose owners are counted.
  const auto memory = std::make_shared<std::array<float, 4>>(std::array<float, 4>{1, 2, 3, 4});
  std::optional<NodeId> first, other;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).op->name != "Constant") continue;
    const auto& name = graph.value_name(graph.node(id).outputs[0]);
    (name == "first" ? first : other) = id;
  }
  REQUIRE((first && other));
  for (Graph* each : {&model.training, &model.inference}) {
    Attr value = Tensor::wrap(DType::f32, Shape{4}, memory->data(), memory);
    each->node(*first).attrs.insert_or_assign("value", std::move(value));
  }
  CHECK(memory.use_count() > 1);
  CHECK(initial_value_bytes(model) == 16);
  drop_initial_values(model);
  CHECK(memory.use_count() == 1);
  for (const Graph* each : {&model.training, &model.inference}) {
    CHECK(each->nodes() == graph.nodes());
    const auto& zeros = std::get<Tensor>(each->node(*first).attrs.at("value"));
    CHECK(zeros.identical(Tensor(DType::f32, Shape{4})));
    const auto& kept = std::get<Tensor>(each->node(*other).attrs.at("value"));
    CHECK(kept.identical(Tensor::of<float>({4}, {5, 6, 7, 8})));
  }
  drop_initial_values(model);  // once more, and without harm
}

TEST_CASE("a first value that is also an output of the model stays") {
  const Catalogue catalogue = standard_catalogue();
  std::string text = kOneVariable;
  text.replace(text.find("(float[N,4] y)"), 14, "(float[N,4] y, float[4] first)");
  const Graph graph = must(parse_graph(text, catalogue, "one"));
  Model model{graph, graph, {}, {}, {}, 20};
  drop_initial_values(model);
  CHECK(initial_value_bytes(model) == 0);
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).op->name != "Constant") continue;
    CHECK(std::get<Tensor>(model.training.node(id).attrs.at("value"))
              .identical(std::get<Tensor>(graph.node(id).attrs.at("value"))));
  }
}

}  // namespace
}  // namespace leat
