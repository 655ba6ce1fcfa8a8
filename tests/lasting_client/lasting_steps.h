// The steps that the client of tests/daemon/lasting_sessions_test.cc runs, and the test after it.
#pragma once

#include <string>

#include "devices/base/text.h"
#include "ops/graph/builder.h"

namespace leat {

// A variable of four numbers on each of two workers. Each "train" adds "x" and noise to a multiple
// of it, so that the value after a step depends on all steps before it, their order and their
// numbers. "sum" is a number of both, before the step.
inline Result<Graph> lasting_graph(const Catalogue& catalogue, int workers) {
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{4});
  ValueId sum = g.scalar(DType::f32, 0);
  for (int i = 0; i < workers; ++i) {
    const std::string device = cat("job:worker/task:", i);
    const ValueId v =
        g.op("leat.Variable", {}, {{"name", cat("v", i)}, {"shape", std::vector<int64_t>{4}}});
    graph.node(graph.value(v).producer).device = device;
    const ValueId now = g.op("leat.Snapshot", {v});
    const ValueId noise = g.op("RandomUniform", {}, {{"shape", std::vector<int64_t>{4}}});
    const ValueId next =
        g.op("Add", {g.op("Mul", {now, g.scalar(DType::f32, 1.0625)}), g.op("Add", {x, noise})});
    graph.node(g.effect("leat.Assign", {v, next})).name = cat("train", i);
    sum = g.op("Add", {g.op("Mul", {sum, g.scalar(DType::f32, 3)}),
                       g.op("ReduceSum", {now}, {{"keepdims", int64_t{0}}})});
  }
  g.named(sum, "sum");
  LEAT_RETURN_IF_ERROR(g.status());
  return graph;
}

inline std::vector<std::string> lasting_targets(int workers) {
  std::vector<std::string> targets;
  for (int i = 0; i < workers; ++i) targets.push_back(cat("train", i));
  return targets;
}

// The feed of a step, counted from 1.
inline Tensor lasting_feed(uint64_t step) {
  const auto x = static_cast<float>(step % 17);
  return Tensor::of<float>(Shape{4}, {x, x / 2, -x, 1});
}

}  // namespace leat
