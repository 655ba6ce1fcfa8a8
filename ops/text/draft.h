// A graph as its file describes it, connected by names and not validated yet. The parser of the
// text form and the importer of ONNX files both make a draft, and assemble() turns it into a Graph.
// A draft is plain data without a catalogue: passes may add, rename and remove entries.
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

// One size of a declared type.
struct DraftDim {
  std::optional<int64_t> size;
  std::string symbol;  // "N" or "2*N"; without size and symbol the size is unknown
};

// A declared type. A token has no dtype and no sizes.
struct DraftType {
  ValueKind kind = ValueKind::tensor;
  DType dtype = DType::invalid;
  std::vector<DraftDim> dims;
};

// An input, an output, or the declaration of another value; without a type nothing is declared.
struct DraftValue {
  DraftName name;
  std::optional<DraftType> type;
};

// An initializer: assemble() makes a Constant node of it, before all other nodes.
struct DraftConstant {
  DraftName name;
  Tensor value;
};

// An attribute, or a region that is still a draft. No DraftAttr holds a finished Graph.
using DraftAttr = std::variant<Attr, std::shared_ptr<DraftGraph>>;

// A node. The domain is "" or "ai.onnx" for ONNX's ops, "leat" for Leat's; `op` has no domain in
// it.
struct DraftNode {
  size_t offset = 0;
  std::string name, domain, op;
  // Absent operands have the name "". Operands at the end may be left out.
  std::vector<DraftName> inputs, outputs;
  std::map<std::string, DraftAttr, std::less<>> attrs;
};

// A graph or a region. The nodes are in an order in which each name is defined before its use.
struct DraftGraph {
  std::string name;
  std::vector<DraftValue> inputs, outputs;
  std::vector<DraftValue> types;  // of intermediate values: declarations, not used for inference
  std::vector<DraftConstant> constants;
  std::vector<DraftNode> nodes;
  // The largest sizes of symbols, by the symbol's name.
  std::map<std::string, int64_t, std::less<>> bounds;
};

// True for the attributes that belong to the graph and not to the op.
bool is_reserved_attribute(std::string_view name);

// A function that returns "cnn.onnxtxt:3:14" for an offset of the draft. assemble() calls it for
// errors alone.
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
// validate() checks the rest. An int is accepted for an attribute that is a float, and for one of
// Leat's own ops that is a list of ints; it is converted here. The catalogue must outlive the
// graph.
Result<Graph> assemble(const DraftGraph& draft, const Catalogue& catalogue, const Locate& locate);

}  // namespace leat
