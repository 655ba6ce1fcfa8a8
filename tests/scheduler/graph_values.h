// Graphs of a few lines, and the values that they compute: for tests of passes.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "ops/text/parse.h"
#include "scheduler/graph/rewrite.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {

// The graph with its types.
inline Graph parsed(const std::string& text, const Catalogue& catalogue = scheduler_catalogue()) {
  Graph graph = must(parse_graph(
      cat("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n", text), catalogue, "g"));
  must(validate(graph));
  return graph;
}

// The inputs and outputs of the graph, as a caller feeds and fetches them.
inline Borders borders_of(const Graph& graph) { return {graph.inputs(), graph.outputs(), {}}; }

// The values of the outputs, of inputs that depend on their index: waves, or integers below 4.
inline std::vector<Tensor> values_of(const Graph& graph) {
  std::map<ValueId, Tensor> feeds;
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueType& type = graph.value(graph.inputs()[i]).type;
    Tensor value(type.dtype, *type.shape.concrete());
    for (int64_t j = 0; j < value.elements(); ++j) {
      const double wave = std::sin(static_cast<double>(j * 3 + 17 * i));
      value.set(j, is_float(type.dtype) ? wave : static_cast<double>(j % 4));
    }
    feeds.emplace(graph.inputs()[i], value);
  }
  return must(interpret(graph, feeds, graph.outputs()));
}

}  // namespace leat
