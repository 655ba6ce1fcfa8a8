// Upgrades nodes of older opsets to the version that this build implements.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/text/draft.h"

namespace leat {

// Upgrades the nodes of one graph.
class OnnxUpgrade {
 public:
  // `opset` is the version of the domain "", 1 to 21; `ranks` are those that the file declares, by
  // value.
  OnnxUpgrade(int64_t opset, std::map<std::string, int> ranks)
      : opset_(opset), ranks_(std::move(ranks)) {}

  // Appends the node to `out`, after the constants that its new inputs need. unimplemented if the
  // newer version cannot express the node.
  Status add(DraftNode node, std::vector<DraftNode>& out);

 private:
  using Nodes = std::vector<DraftNode>;
  DraftName constant(Tensor value, size_t offset, Nodes& out);
  Status attr_to_input(DraftNode& node, std::string_view attr, size_t index, Nodes& out);
  void softmax(DraftNode node, Nodes& out);
  Status batch_normalization(DraftNode& node) const;
  Status before_7(DraftNode& node, Nodes& out);
  Status old_broadcast(DraftNode& node, Nodes& out);
  Status constant_node(DraftNode& node) const;

  const int64_t opset_;
  const std::map<std::string, int> ranks_;
  int made_ = 0;
};

}  // namespace leat
