// Tests the example of docs/session.md, with the text that it has there.
#include "daemon/hosts/local_hosts.h"
#include "daemon/session/session.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "tests/catch.h"

namespace leat {
namespace {

// A line is fitted to points: y = w * x + b. Returns w and b.
Result<std::vector<Tensor>> fit_a_line() {
  const Catalogue catalogue = standard_catalogue();
  const auto hosts = make_local_hosts(1, 1);

  // One graph holds the variables, how they begin, the model, and the step that trains it.
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{}}});
  const ValueId b =
      g.op("leat.Variable", {}, {{"name", std::string("b")}, {"shape", std::vector<int64_t>{}}});
  graph.node(g.effect("leat.Initialize", {w, g.scalar(DType::f32, 0)})).name = "init w";
  graph.node(g.effect("leat.Initialize", {b, g.scalar(DType::f32, 0)})).name = "init b";
  const ValueId read_w = g.named(g.op("leat.Read", {w}), "weight");
  const ValueId read_b = g.named(g.op("leat.Read", {b}), "bias");
  const ValueId x = g.input("x", DType::f32, {g.batch("N")});
  const ValueId y = g.input("y", DType::f32, {g.batch("N")});
  const ValueId guess = g.named(g.op("Add", {g.op("Mul", {x, read_w}), read_b}), "guess");
  const ValueId error = g.op("Sub", {guess, y});
  const ValueId loss = g.named(
      g.op("ReduceMean", {g.op("Mul", {error, error})}, {{"keepdims", int64_t{0}}}), "loss");
  const auto gradients = g.ops("leat.Gradients", {loss, read_w, read_b}, {}, 2);
  const ValueId rate = g.scalar(DType::f32, -0.1);
  graph.node(g.effect("leat.AssignAdd", {w, g.op("Mul", {gradients[0], rate})})).name = "train w";
  graph.node(g.effect("leat.AssignAdd", {b, g.op("Mul", {gradients[1], rate})})).name = "train b";
  LEAT_RETURN_IF_ERROR(g.status());

  LEAT_ASSIGN_OR_RETURN(auto session, Session::open(*hosts, {}));
  LEAT_RETURN_IF_ERROR(session->extend(0, graph).status());
  LEAT_RETURN_IF_ERROR(session->run({}, {}, {"init w", "init b"}).status());
  LEAT_ASSIGN_OR_RETURN(const CallableId train,
                        session->make_callable({{"x", "y"}, {"loss"}, {"train w", "train b"}}));
  const Tensor xs = Tensor::of<float>(Shape{4}, {-1, 0, 1, 2});
  const Tensor ys = Tensor::of<float>(Shape{4}, {-1, 1, 3, 5});  // y = 2x + 1
  for (int i = 0; i < 200; ++i)
    LEAT_RETURN_IF_ERROR(session->run_callable(train, {xs, ys}).status());
  return session->run({}, {"weight", "bias"}, {});
}

}  // namespace

TEST_CASE("the example of the sessions' page fits its line", "[cluster]") {
  const auto fitted = fit_a_line();
  INFO(fitted.status().to_string());
  REQUIRE(fitted.ok());
  CHECK((*fitted)[0].at(0) == Approx(2).margin(1e-3));
  CHECK((*fitted)[1].at(0) == Approx(1).margin(1e-3));
}

}  // namespace leat
