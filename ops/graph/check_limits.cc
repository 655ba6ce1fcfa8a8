// Checks the limits of ops/graph/limits.h, over a whole graph and the regions in it.
#include <algorithm>

#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "ops/graph/limits.h"
#include "ops/graph/validate.h"

namespace leat {
namespace {

class LimitCheck {
 public:
  Status graph(const Graph& graph, int nesting);

 private:
  Status node(const Graph& graph, NodeId id, int nesting);
  Status references(const Graph& graph, NodeId id) const;
  Status attribute(const std::string& subject, const std::string& name, const Attr& attr,
                   int nesting);
  Status input(const Graph& graph, ValueId id, int nesting) const;
  // Checks that a name is UTF-8. `what` says whose name it is.
  static Status text(const std::string& subject, std::string_view what, std::string_view name) {
    if (is_utf8(name)) return {};
    return invalid_argument(cat(subject, ": expected ", what, " in UTF-8, received '", name, "'"));
  }
  // Checks one number against its limit; the message names both.
  static Status most(const std::string& subject, std::string_view what, uint64_t most,
                     uint64_t received) {
    if (received <= most) return {};
    return invalid_argument(
        cat(subject, ": expected at most ", most, " ", what, ", received ", received));
  }

  // Totals of the graph and all of its regions.
  uint64_t nodes_ = 0, edges_ = 0, constant_bytes_ = 0;
};

Status LimitCheck::graph(const Graph& graph, int nesting) {
  const std::string subject = cat("graph '", graph.name, "'");
  LEAT_RETURN_IF_ERROR(
      most(subject, "nested graphs", limits::kNesting, static_cast<uint64_t>(nesting)));
  LEAT_RETURN_IF_ERROR(most(subject, "nodes", limits::kNodes, nodes_ += graph.nodes()));
  // The edges are compared after each node, so that a huge graph is refused early.
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    LEAT_RETURN_IF_ERROR(node(graph, id, nesting));
    LEAT_RETURN_IF_ERROR(most(subject, "edges", limits::kEdges, edges_));
  }
  // Names go into messages and files, which are UTF-8.
  for (ValueId id = 0; id < graph.values(); ++id) {
    LEAT_RETURN_IF_ERROR(
        most(subject, "bytes of a value's name", limits::kNameLength, graph.value_name(id).size()));
    LEAT_RETURN_IF_ERROR(text(subject, "a value's name", graph.value_name(id)));
  }
  for (ValueId id : graph.inputs()) LEAT_RETURN_IF_ERROR(input(graph, id, nesting));
  for (ValueId output : graph.outputs()) {
    if (output >= graph.values()) {
      return invalid_argument(
          cat(subject, ": an output refers to value ", output, ", which does not exist"));
    }
  }
  return {};
}

Status LimitCheck::node(const Graph& graph, NodeId id, int nesting) {
  const Node& node = graph.node(id);
  const std::string subject = graph.describe_node(id);
  edges_ += node.inputs.size() + node.after.size();
  LEAT_RETURN_IF_ERROR(most(subject, "operands", limits::kOperands,
                            std::max(node.inputs.size(), node.outputs.size())));
  LEAT_RETURN_IF_ERROR(most(subject, "attributes", limits::kAttributes, node.attrs.size()));
  LEAT_RETURN_IF_ERROR(
      most(subject, "bytes of a node's name", limits::kNameLength, node.name.size()));
  LEAT_RETURN_IF_ERROR(text(subject, "a node's name", node.name));
  LEAT_RETURN_IF_ERROR(references(graph, id));
  for (const auto& [name, attr] : node.attrs) {
    LEAT_RETURN_IF_ERROR(attribute(subject, name, attr, nesting));
  }
  return {};
}

// Checked before anything follows a reference, because a graph file may name any number.
Status LimitCheck::references(const Graph& graph, NodeId id) const {
  for (ValueId input : graph.node(id).inputs) {
    if (input != kNone && input >= graph.values()) {
      return invalid_argument(cat(graph.describe_node(id), ": an input refers to value ", input,
                                  ", which does not exist"));
    }
  }
  for (NodeId before : graph.node(id).after) {
    if (before >= graph.nodes()) {
      return invalid_argument(
          cat(graph.describe_node(id), ": runs after node ", before, ", which does not exist"));
    }
  }
  return {};
}

// Texts, lists and constants have limits of their own; a region counts as a nested graph.
Status LimitCheck::attribute(const std::string& subject, const std::string& name, const Attr& attr,
                             int nesting) {
  const auto fits = [&](std::string_view what, uint64_t limit, uint64_t received) {
    return most(cat(subject, ": attribute '", name, "'"), what, limit, received);
  };
  if (const auto* text = std::get_if<std::string>(&attr)) {
    return fits("bytes", limits::kStringLength, text->size());
  }
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr)) {
    return fits("elements", limits::kListLength, ints->size());
  }
  if (const auto* floats = std::get_if<std::vector<double>>(&attr)) {
    return fits("elements", limits::kListLength, floats->size());
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attr)) {
    LEAT_RETURN_IF_ERROR(fits("elements", limits::kListLength, texts->size()));
    for (const std::string& text : *texts) {
      LEAT_RETURN_IF_ERROR(fits("bytes in each element", limits::kStringLength, text.size()));
    }
  } else if (const auto* tensor = std::get_if<Tensor>(&attr)) {
    return fits("bytes of constants so far", limits::kConstantBytes,
                constant_bytes_ += tensor->bytes());
  } else if (const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr)) {
    if (!*region)
      return invalid_argument(
          cat(subject, ": attribute '", name, "': expected a graph, it is empty"));
    return graph(**region, nesting + 1);
  }
  return {};
}

// The types of inputs are given, but for those of regions. Inference computes all others and checks
// their sizes.
Status LimitCheck::input(const Graph& graph, ValueId id, int nesting) const {
  const ValueType& type = graph.value(id).type;
  const auto refuse = [&](std::string_view expected) {
    return invalid_argument(cat("input '", graph.describe(id), "': expected ", expected,
                                ", received ", graph.type_text(type)));
  };
  if (type.kind == ValueKind::tensor && type.dtype == DType::invalid && nesting == 0)
    return refuse("an element type");
  int64_t elements = 1;
  for (const Dim dim : type.shape.dims()) {
    if (!dim.is_constant() && dim.symbol >= graph.symbols()) {
      return invalid_argument(
          cat("input '", graph.describe(id), "': refers to a symbol that does not exist"));
    }
    if (dim.factor < 0) return refuse("sizes >= 0");
    // A size of 0 counts as 1, so that no later size escapes the check of the product.
    const auto product = checked_mul(elements, std::max<int64_t>(dim.factor, 1));
    if (!product || *product > limits::kElements)
      return refuse(cat("at most ", limits::kElements, " elements"));
    elements = *product;
  }
  return {};
}

}  // namespace

Status check_limits(const Graph& graph) { return LimitCheck().graph(graph, 0); }

}  // namespace leat
