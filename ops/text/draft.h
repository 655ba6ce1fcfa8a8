// A graph as its file describes it, connected by names and not validated yet. The parser of the
// text form and the importer of ONNX files both make a draft, and assemble() turns it into a Graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"
#include "ops/graph/types.h"

namespace leat {

struct DraftGraph;

// A name and its place: an offset whose meaning the source of the draft knows (a byte of a text, a
// node of a file).
struct DraftName {
  std::string name;  // "": an optional operand that is absent
  size_t offset = 0;
};

struct DraftDim {
  std::optional<int64_t> size;
  std::string symbol;  // "N" or "2*N"; without size and symbol the size is unknown
};

struct DraftType {
  ValueKind kind = ValueKind::tensor;
  DType dtype = DType::invalid;
  std::vector<DraftDim> dims;
};

struct DraftValue {
  DraftName name;
  std::optional<DraftType> type;
};

struct DraftConstant {
  DraftName name;
  Tensor value;
};

using DraftAttr = std::variant<Attr, std::shared_ptr<DraftGraph>>;

struct DraftNode {
  size_t offset = 0;
  std::string name, domain, op;
  std::vector<DraftName> inputs, outputs;
  std::map<std::string, DraftAttr, std::less<>> attrs;
};

struct DraftGraph {
  std::string name;
  std::vector<DraftValue> inputs, outputs;
  std::vector<DraftValue> types;  // of intermediate values: declarations, not used for inference
  std::vector<DraftConstant> constants;
  std::vector<DraftNode> nodes;
  std::map<std::string, int64_t, std::less<>> bounds;  // of symbols
};

// True for the attributes that belong to the graph and not to the op.
bool is_reserved_attribute(std::string_view name);

// A function that returns "cnn.onnxtxt:3:14" for an offset of the draft.
using Locate = std::function<std::string(size_t offset)>;

// Connects a draft by its names. Every name must be defined once, and before its use. A region (an
// attribute that is a graph) may use names of the graph around it, as in ONNX: each becomes an
// additional input of the region and of its node, after the written ones, and the attribute
// `captures` counts them. A name that begins with '%' only connects: its value has no name in the
// graph.
//
// These attributes of any node belong to the graph and not to the op: `after` (control edges: names
// of values whose nodes run first, or "[name]" for a node by its name), `device`, `source`,
// `first_row`. A node without `source` gets its index in the file, in which the nodes of regions
// count at their place.
//
// invalid_argument names the place of an error. Ops are looked up but types are not inferred:
// validate() checks the rest.
Result<Graph> assemble(const DraftGraph& draft, const Catalogue& catalogue, const Locate& locate);

}  // namespace leat
