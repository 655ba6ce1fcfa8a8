#include "ops/onnx/left_out.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace leat {
namespace {

bool reads_any(const DraftNode& node, const std::set<std::string>& missing) {
  const auto is_missing = [&](const DraftName& name) { return missing.contains(name.name); };
  if (std::ranges::any_of(node.inputs, is_missing)) return true;
  return std::ranges::any_of(node.attrs, [&](const auto& attr) {
    const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr.second);
    if (region == nullptr) return false;
    return std::ranges::any_of((*region)->nodes,
                               [&](const DraftNode& n) { return reads_any(n, missing); }) ||
           std::ranges::any_of((*region)->outputs,
                               [&](const DraftValue& value) { return is_missing(value.name); });
  });
}

}  // namespace

LeftOut leave_out(DraftGraph& graph, std::set<std::string> missing) {
  LeftOut out;
  std::vector<DraftNode> kept;
  for (DraftNode& node : graph.nodes) {
    if (!reads_any(node, missing)) {
      kept.push_back(std::move(node));
      continue;
    }
    ++out.nodes;
    for (const DraftName& output : node.outputs) missing.insert(output.name);
  }
  graph.nodes = std::move(kept);
  std::erase_if(graph.outputs, [&](const DraftValue& output) {
    if (!missing.contains(output.name.name)) return false;
    out.outputs.push_back(output.name.name);
    return true;
  });
  return out;
}

}  // namespace leat
