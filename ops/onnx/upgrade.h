// Upgrades nodes of older opsets to the version that this build implements. Private to ops/onnx.
//
// ONNX changed ops over its versions: attributes became inputs (Squeeze's axes in opset 13),
// defaults and meanings changed (Softmax before opset 13 flattened its input). The upgrade rewrites
// a node so that it means the same in the implemented version; all other nodes pass through.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/text/draft.h"

namespace leat {

// True for the ops that ONNX has no more, whose nodes get the name of their successor.
bool is_renamed_op(std::string_view domain, std::string_view op);

// Upgrades the nodes of one graph; a region has an upgrade of its own. Threads: one.
//
//   OnnxUpgrade upgrade(model_opset, declared_ranks);
//   for (DraftNode& node : nodes) LEAT_RETURN_IF_ERROR(upgrade.add(std::move(node), graph.nodes));
class OnnxUpgrade {
 public:
  // `opset` is the version of the domain "", 1 to kNewestOpset; `ranks` are those that the file
  // declares, by the name of the value. They may be incomplete: a rewrite that needs a missing one
  // has a more general form, or returns unimplemented.
  OnnxUpgrade(int64_t opset, std::map<std::string, int> ranks)
      : opset_(opset), ranks_(std::move(ranks)) {}

  // Appends the node to `out`, after the constants that its new inputs need; one node may become
  // several. Made-up values begin with "%upgrade", so that the graph does not keep their names.
  // unimplemented if the newer version cannot express the node; invalid_argument if an attribute
  // has a wrong kind or value. The messages have no subject, and `out` may have got constants by
  // then.
  Status add(DraftNode node, std::vector<DraftNode>& out);

 private:
  using Nodes = std::vector<DraftNode>;
  DraftName constant(Tensor value, size_t offset, Nodes& out);
  Status attr_to_input(DraftNode& node, std::string_view attr, size_t index, Nodes& out);
  void softmax(DraftNode node, Nodes& out);
  Status batch_normalization(DraftNode& node) const;
  Status before_7(DraftNode& node, Nodes& out);
  Status old_broadcast(DraftNode& node, Nodes& out);
  Status old_slopes(DraftNode& node, Nodes& out);
  Status constant_node(DraftNode& node) const;
  Status old_resize(DraftNode& node) const;
  Status batched_scan(DraftNode& node) const;

  const int64_t opset_;
  const std::map<std::string, int> ranks_;
  int made_ = 0;
};

}  // namespace leat
