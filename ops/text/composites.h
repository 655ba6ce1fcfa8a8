// ONNX's ops that are made of others: a node of one becomes a few nodes when a file is loaded, so
// that they need neither a kernel nor a gradient of their own.
//
// Source: the function bodies of ONNX's operator reference, or the formulas there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/text/draft.h"

namespace leat {

// True for the ops that expand_composites() replaces. `domain` is "" for ONNX's.
bool is_composite(std::string_view domain, std::string_view op);

struct CompositeOp {
  std::string name;  // of another domain than ONNX's own with it: "ai.onnx.ml.Binarizer"
  int since;         // the opset version that it follows, of its domain
};
// All of them, sorted by name.
std::vector<CompositeOp> composite_ops();

// Replaces each composite node of the graph and of its regions by the nodes that it stands for.
// Their values begin with '%', so that the graph does not keep them; the last one has the output's
// name. Nodes that have no name of their own are called "%Mish 'act'", and messages about one name
// the composite first (Graph::describe_node). Errors name the node through `locate`:
// invalid_argument for a wrong number of operands, or an attribute that is unknown or of another
// kind.
Status expand_composites(DraftGraph& graph, const Locate& locate);

}  // namespace leat
