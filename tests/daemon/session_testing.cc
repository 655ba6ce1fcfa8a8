#include "tests/daemon/session_testing.h"

#include <sched.h>

#include <cstring>

#include "ops/catalogue.h"

namespace leat::testing {

Catalogue gated_catalogue(Gate& gate) {
  Catalogue catalogue = standard_catalogue();
  catalogue.add(
      Op("test.Gate")
          .input("x", "T")
          .output("y", "T")
          .type("T", kFloats)
          .stateful()
          .infer(infer_same_as_first)
          .kernel("cpu", [&gate](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
            const size_t bytes = setup.input(0).bytes();
            return make_kernel([&gate, bytes](KernelContext& context) {
              ++gate.reached;
              while (!gate.open) sched_yield();
              std::memcpy(context.outputs[0], context.inputs[0], bytes);
              return Progress::done;
            });
          }));
  return catalogue;
}

ValueId SessionGraph::variable(const std::string& name, int64_t size, const std::string& device) {
  const ValueId v =
      g.op("leat.Variable", {}, {{"name", name}, {"shape", std::vector<int64_t>{size}}});
  graph.set_value_name(v, name);
  graph.node(graph.value(v).producer).device = device;
  return v;
}

NodeId SessionGraph::effect(const std::string& name, const std::string& op,
                            std::vector<ValueId> inputs, Attrs attrs) {
  const NodeId id = g.effect(op, std::move(inputs), std::move(attrs));
  graph.node(id).name = name;
  return id;
}

ValueId SessionGraph::value(const std::string& name, const std::string& op,
                            std::vector<ValueId> inputs, Attrs attrs, const std::string& device) {
  const ValueId made = g.named(g.op(op, std::move(inputs), std::move(attrs)), name);
  graph.node(graph.value(made).producer).device = device;
  return made;
}

void SessionGraph::queue(int64_t capacity) {
  const std::vector<std::string> components{"int64[]"};
  const ValueId q =
      value("queue", "leat.Queue", {},
            {{"name", std::string("q")}, {"capacity", capacity}, {"components", components}});
  effect("put", "leat.Enqueue", {q, g.input("element", DType::i64, Shape())});
  value("taken", "leat.Dequeue", {q}, {{"components", components}});
}

const Graph& SessionGraph::get() {
  must(g.status());
  return graph;
}

const Graph& basic_graph(SessionGraph& s) {
  GraphBuilder& g = s.g;
  const ValueId v = s.variable("v", 2);
  s.effect("init", "leat.Initialize", {v, g.constant(floats({0, 0}))});
  s.effect("add", "leat.AssignAdd", {v, g.input("d", DType::f32, Shape{2})});
  s.effect("assign", "leat.Assign", {v, g.input("to", DType::f32, Shape{2})});
  const ValueId read = s.value("value", "leat.Read", {v});
  const ValueId x = g.input("x", DType::f32, {g.batch("N"), Dim::of(2)});
  s.value("y", "Add", {x, read});
  return s.get();
}

}  // namespace leat::testing
