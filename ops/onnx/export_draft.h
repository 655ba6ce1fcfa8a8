// Makes ONNX nodes of a graph, as a draft: the first half of the export. Private to ops/onnx.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/text/draft.h"

namespace leat {

// A variable of the graph that became an initializer.
struct ExportedVariable {
  std::string name;  // of the initializer
  std::string variable;
  DType dtype = DType::invalid;
  Shape shape;
  bool trained = true;
};

// The model without the values of its variables. `draft.constants` is empty, and each node's offset
// is its place in `draft.nodes`.
struct ExportDraft {
  DraftGraph draft;
  // The least opset of a node that needs a newer one for the shapes of its operands than its op
  // does, by the name of its first output.
  std::map<std::string, int64_t> least_opsets;
  std::vector<ExportedVariable> variables;  // in the order in which nodes read them
};

// The nodes that the outputs need, in the form that Leat's definitions of the ops follow; the
// inputs and outputs of the graph with their types. unimplemented names all nodes that have no form
// in ONNX. REQUIRES: as check_onnx_export().
Result<ExportDraft> export_draft(const Graph& graph);

// Makes names that no other value of the model has.
class ExportNames {
 public:
  // Returns `wanted`, or if it is taken or empty a name that begins like it.
  std::string add(const std::string& wanted);

 private:
  std::set<std::string> taken_;
  size_t next_ = 0;
};

// Adds the nodes for one leat.Recurrent, an ONNX LSTM, GRU or RNN among them. `names` gives the
// names of the graph's values. Returns invalid_argument, without a subject, if the products that it
// reads are not those of a sequence with weights.
Status export_recurrent(const Graph& graph, NodeId id, const std::vector<std::string>& names,
                        ExportNames& fresh, std::vector<DraftNode>& out);

// Adds the nodes for one leat.Quantize or leat.Dequantize.
void export_quantize(const Graph& graph, NodeId id, const std::vector<std::string>& names,
                     ExportNames& fresh, std::vector<DraftNode>& out);

// Rewrites the nodes of `from` for version `opset` of ONNX's ops, from those that Leat's
// definitions follow. Each node that this version cannot express has an entry in the result, such
// as "Gelu 'y' needs opset 20", and `needed` becomes the least opset that has it, if that is
// larger.
std::vector<std::string> fit_to_opset(ExportDraft& from, int64_t opset, int64_t& needed);

}  // namespace leat
