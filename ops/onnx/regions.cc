#include "ops/onnx/regions.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

template <typename Visit>
void for_each_region(DraftGraph& graph, const Visit& visit) {
  for (DraftNode& node : graph.nodes) {
    for (auto& [name, attr] : node.attrs) {
      if (auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr)) visit(**region);
    }
  }
}

// All names of the graph and its regions.
void collect_names(DraftGraph& graph, std::set<std::string>& names) {
  for (const DraftValue& input : graph.inputs) names.insert(input.name.name);
  for (const DraftConstant& constant : graph.constants) names.insert(constant.name.name);
  for (const DraftNode& node : graph.nodes) {
    for (const DraftName& output : node.outputs) names.insert(output.name);
  }
  for_each_region(graph, [&](DraftGraph& region) { collect_names(region, names); });
}

// True for a weight, which moves out of its region.
bool is_weight(const DraftConstant& constant) {
  return is_float(constant.value.dtype()) && constant.value.shape().rank() > 0;
}

// The names of all values that stay in a region, or in one inside of it.
void collect_staying(DraftGraph& region, std::set<std::string>& names) {
  for (const DraftValue& input : region.inputs) names.insert(input.name.name);
  for (const DraftConstant& constant : region.constants) {
    if (!is_weight(constant)) names.insert(constant.name.name);
  }
  for (const DraftNode& node : region.nodes) {
    for (const DraftName& output : node.outputs) names.insert(output.name);
  }
  for_each_region(region, [&](DraftGraph& inner) { collect_staying(inner, names); });
}

bool defines(const DraftGraph& graph, const std::string& name) {
  for (const DraftValue& input : graph.inputs) {
    if (input.name.name == name) return true;
  }
  for (const DraftConstant& constant : graph.constants) {
    if (constant.name.name == name) return true;
  }
  for (const DraftNode& node : graph.nodes) {
    for (const DraftName& output : node.outputs) {
      if (output.name == name) return true;
    }
  }
  return false;
}

// Renames a value for its readers in a graph, and in the regions that have no other of that name.
void rename_reads(DraftGraph& graph, const std::string& from, const std::string& to) {
  for (DraftNode& node : graph.nodes) {
    for (DraftName& input : node.inputs) {
      if (input.name == from) input.name = to;
    }
  }
  for (DraftValue& output : graph.outputs) {
    if (output.name.name == from) output.name.name = to;
  }
  for_each_region(graph, [&](DraftGraph& region) {
    if (!defines(region, from)) rename_reads(region, from, to);
  });
}

class ConstantHoister {
 public:
  explicit ConstantHoister(DraftGraph& graph) : graph_(graph) { collect_names(graph, names_); }

  void run() {
    for (const DraftConstant& constant : graph_.constants) outer_.insert(constant.name.name);
    for (const DraftValue& input : graph_.inputs) outer_.insert(input.name.name);
    for (const DraftNode& node : graph_.nodes) {
      for (const DraftName& output : node.outputs) outer_.insert(output.name);
    }
    // A region that has a value of its own may not see another one of that name around it.
    for_each_region(graph_, [&](DraftGraph& region) { collect_staying(region, outer_); });
    for_each_region(graph_, [&](DraftGraph& region) { hoist(region); });
    for (DraftConstant& constant : hoisted_) graph_.constants.push_back(std::move(constant));
  }

 private:
  void hoist(DraftGraph& region) {
    std::vector<DraftConstant> kept;
    for (DraftConstant& constant : std::exchange(region.constants, {})) {
      if (!is_weight(constant)) {
        kept.push_back(std::move(constant));
        continue;
      }
      const std::string name = constant.name.name;
      if (outer_.contains(name)) {
        int number = 2;
        while (!names_.insert(cat(name, "_", number)).second) ++number;
        constant.name.name = cat(name, "_", number);
        rename_reads(region, name, constant.name.name);
      }
      outer_.insert(constant.name.name);
      hoisted_.push_back(std::move(constant));
    }
    region.constants = std::move(kept);
    for_each_region(region, [&](DraftGraph& inner) { hoist(inner); });
  }

  DraftGraph& graph_;
  std::set<std::string> names_;  // of all values
  std::set<std::string> outer_;  // those that a weight cannot have outside of its region
  std::vector<DraftConstant> hoisted_;
};

}  // namespace

void hoist_region_constants(DraftGraph& graph) { ConstantHoister(graph).run(); }

}  // namespace leat
