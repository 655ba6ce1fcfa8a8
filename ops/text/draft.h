// A graph as its file says it, wired by names and not looked at yet: what the parser of the text
// form and the importer of ONNX files both make, and what assemble() turns into a Graph.
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

// A name and where it stands: an offset that the source of the draft can explain (a byte of a text,
// a node of a file).
struct DraftName {
  std::string name;  // "": an optional operand that is absent
  size_t offset = 0;
};

struct DraftDim {
  std::optional<int64_t> size;
  std::string symbol;  // "N" or "2*N"; with no size and no symbol the size is unknown
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
  std::vector<DraftValue> types;  // of values between: declarations that infer nothing
  std::vector<DraftConstant> constants;
  std::vector<DraftNode> nodes;
  std::map<std::string, int64_t, std::less<>> bounds;  // of symbols
};

// Is it one of the attributes that are the graph's and not the op's?
bool is_reserved_attribute(std::string_view name);

// "cnn.onnxtxt:3:14" for an offset of the draft.
using Locate = std::function<std::string(size_t offset)>;

// Wires a draft. Every name must be defined before it is used, and once. A region (an attribute
// that is a graph) may use names of the graph around it, as in ONNX: each becomes an input more of
// the region and of its node, after those that were written, and the attribute `captures` counts
// them. Names that begin with '%' only wire: their values have no name in the graph.
//
// These attributes of any node are the graph's and not the op's: `after` (control edges: names of
// values whose nodes run first, or "[name]" for a node by its name), `device`, `source`,
// `first_row`. A node without `source` gets its index in the file, regions counted where they
// stand.
//
// invalid_argument with the place for what is wrong; ops are looked up, but nothing is inferred:
// validate() is the gate for the rest.
Result<Graph> assemble(const DraftGraph& draft, const Catalogue& catalogue, const Locate& locate);

}  // namespace leat
