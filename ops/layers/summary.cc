#include "ops/layers/summary.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "ops/layers/control_flow.h"
#include "ops/layers/layers.h"

namespace leat {
namespace {

// A symbol counts as its factor, so that a batch of N is one example.
double elements(const ValueType& type) {
  double count = 1;
  for (const Dim dim : type.shape.dims()) count *= static_cast<double>(dim.factor);
  return count;
}

const ValueType& type_of(const Graph& graph, ValueId value) { return graph.value(value).type; }

// The operations of one node in the roofline model: two per multiply-add, one per element of any
// other op that computes, none for ops that only move data.
double flops(const Graph& graph, const Node& node) {
  const std::string& op = node.op->name;
  if (node.outputs.empty() || node.outputs[0] == kNone || node.inputs.empty()) return 0;
  if (node.inputs[0] == kNone || node.op->domain == "leat") return 0;
  const double out = elements(type_of(graph, node.outputs[0]));
  const SymbolicShape& in = type_of(graph, node.inputs[0]).shape;
  if (op == "Conv" || op == "ConvTranspose") {
    const ValueType& kernel = type_of(graph, node.inputs[1]);
    // Each element of `walked` takes part in one multiply-add for each element of the kernel that
    // has one index of its first axis.
    const double walked = op == "Conv" ? out : elements(type_of(graph, node.inputs[0]));
    return 2 * walked * elements(kernel) / static_cast<double>(kernel.shape[0].factor);
  }
  if ((op == "MatMul" || op == "Gemm") && in.rank() > 0) {
    const int inner = op == "Gemm" && attr_int(node.attrs, "transA") ? 0 : in.rank() - 1;
    return 2 * out * static_cast<double>(in[inner].factor);
  }
  // One operation for each element of the window.
  if (op == "MaxPool" || op == "AveragePool") {
    double window = 1;
    for (const int64_t size : attr_ints(node.attrs, "kernel_shape")) {
      window *= static_cast<double>(size);
    }
    return out * window;
  }
  static constexpr std::array kMoves = {"Flatten",   "Reshape", "Transpose", "Identity", "Squeeze",
                                        "Unsqueeze", "Concat",  "Split",     "Slice",    "Gather",
                                        "Expand",    "Shape",   "Pad",       "Cast"};
  if (std::find(kMoves.begin(), kMoves.end(), op) != kMoves.end()) return 0;
  return std::max(out, elements(type_of(graph, node.inputs[0])));
}

// 1234567 -> "1,234,567".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string mega(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", flops / 1e6);
  return text;
}

using Row = std::array<std::string, 4>;

// A table with left-aligned names and right-aligned numbers.
std::string table(const std::vector<Row>& rows, size_t head) {
  std::array<size_t, 4> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < 4; ++i) {
      const std::string fill(widths[i] - rows[r][i].size(), ' ');
      line += i < 2 ? rows[r][i] + fill : fill + rows[r][i];
      if (i < 3) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r + 1 == head)
      out += std::string(widths[0] + widths[1] + widths[2] + widths[3] + 6, '-') + "\n";
  }
  return out;
}

// The parameters of a node and the operations of its forward pass.
struct Cost {
  int64_t trainable = 0, fixed = 0;
  double flops = 0;
  int64_t parameters() const { return trainable + fixed; }
};

// The cost of each node of the source graph, from the nodes that it was expanded to. Initial values
// cost once and not in every step.
std::vector<Cost> costs(const Graph& graph, const Expansion& expansion) {
  std::vector<Cost> costs(graph.nodes());
  for (NodeId id = 0; id < expansion.graph.nodes(); ++id) {
    const Node& node = expansion.graph.node(id);
    Cost& cost = costs[expansion.origin[id]];
    if (node.op->full_name() == "leat.Variable") {
      const auto count = static_cast<int64_t>(elements(type_of(expansion.graph, node.outputs[0])));
      (attr_int(node.attrs, "trainable", 1) ? cost.trainable : cost.fixed) += count;
    } else if (node.op->name != "ConstantOfShape" && node.op->name != "Constant") {
      cost.flops += flops(expansion.graph, node);
    }
  }
  return costs;
}

// The number of examples in one batch of the graph: 1 if that is symbolic, as in many exported
// models.
int64_t rows_of(const Graph& graph) {
  if (graph.inputs().empty()) return 1;
  const SymbolicShape& shape = graph.value(graph.inputs()[0]).type.shape;
  return shape.rank() > 0 && shape[0].is_constant() ? std::max<int64_t>(1, shape[0].factor) : 1;
}

}  // namespace

Result<std::string> summarize(const Graph& written) {
  // The iterations and branches of control flow are rows of the table.
  LEAT_ASSIGN_OR_RETURN(const Graph graph, expand_control_flow(written));
  LEAT_ASSIGN_OR_RETURN(const Expansion expansion, expand(graph));
  const std::vector<Cost> costs = leat::costs(graph, expansion);
  // The rows are the nodes as written, and their costs come from the expansion.
  Graph typed = graph;
  LEAT_RETURN_IF_ERROR(validate(typed));
  std::vector<Row> rows = {{"layer", "output", "parameters", "MFLOP"}};
  for (const ValueId input : typed.inputs()) {
    rows.push_back(
        {typed.describe(input) + " (input)", typed.type_text(type_of(typed, input)), "", ""});
  }
  const double one = 1.0 / static_cast<double>(rows_of(typed));
  Cost total;
  for (NodeId id = 0; id < typed.nodes(); ++id) {
    const Node& node = typed.node(id);
    const bool made = !node.outputs.empty() && node.outputs[0] != kNone;
    rows.push_back({cat(layer_name(typed, id), " (", node.op->full_name(), ")"),
                    made ? typed.type_text(type_of(typed, node.outputs[0])) : "",
                    grouped(costs[id].parameters()), mega(one * costs[id].flops)});
    total.trainable += costs[id].trainable;
    total.fixed += costs[id].fixed;
    total.flops += costs[id].flops;
  }
  return cat("graph ", typed.name, "\n", table(rows, 1),
             "\nparameters: ", grouped(total.parameters()), " (", grouped(total.trainable),
             " trainable, ", grouped(total.fixed), " not)\nforward pass: ", mega(one * total.flops),
             " MFLOP for one example\n");
}

}  // namespace leat
