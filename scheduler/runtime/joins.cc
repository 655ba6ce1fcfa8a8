#include "scheduler/runtime/joins.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ops/graph/joinable_kernel.h"
#include "scheduler/runtime/workspaces.h"

namespace leat {
namespace {

// Collects the groups of one stretch after the other.
class Joiner {
 public:
  Joiner(const Partition& partition, const std::vector<std::unique_ptr<Kernel>>& kernels)
      : partition_(partition), kernels_(kernels) {
    // Resources of one name are one variable.
    std::map<std::string, uint32_t> by_name;
    for (const PlanResource& resource : partition.resources) {
      const auto next = static_cast<uint32_t>(variables_.size());
      variables_.push_back(by_name.emplace(resource.name, next).first->second);
    }
  }

  std::vector<std::vector<uint32_t>> run() {
    for (uint32_t i = 0; i < kernels_.size(); ++i) {
      const std::string key = key_of(i);
      if (key.empty() || conflicts(i)) end_stretch();
      if (!key.empty()) add(i, key);
    }
    end_stretch();
    return std::move(groups_);
  }

 private:
  // "" if the instruction runs by itself. Kernels that are joined run at the same time, and large
  // workspaces share memory.
  std::string key_of(uint32_t i) const {
    const Kernel* kernel = kernels_[i].get();
    const auto* joinable = dynamic_cast<const JoinableKernel*>(kernel);
    const PlanInstruction& instruction = partition_.instructions[i];
    if (!joinable || instruction.chain != kNone || kernel->workspace_bytes() >= kLargeWorkspace)
      return "";
    // The entry of a group is one piece.
    if (kernel->phases() != 1 || kernel->tiles(0) != 1 || kernel->may_block()) return "";
    for (const int k : instruction.op->writes) {
      if (variable_of(instruction.inputs[static_cast<size_t>(k)]) == kNone) return "";
    }
    const bool writes_values =
        std::any_of(instruction.outputs.begin(), instruction.outputs.end(), [&](uint32_t output) {
          return output != kNone && partition_.values[output].type.kind != ValueKind::token;
        });
    return writes_values ? "" : joinable->join_key();
  }

  // The variable whose bytes a value is, or shows a part of; kNone if it has other bytes.
  uint32_t variable_of(uint32_t value) const {
    if (value == kNone) return kNone;
    const PlanValue& root = partition_.values[partition_.root(value)];
    return root.home == Home::resource && !root.is_opaque() ? variables_[root.index] : kNone;
  }
  // visit(variable, written) for each variable that the instruction touches.
  template <typename Visit>
  void each_variable(uint32_t i, const Visit& visit) const {
    const PlanInstruction& instruction = partition_.instructions[i];
    const std::vector<int>& writes = instruction.op->writes;
    for (size_t k = 0; k < instruction.inputs.size(); ++k) {
      const uint32_t variable = variable_of(instruction.inputs[k]);
      const bool written =
          std::find(writes.begin(), writes.end(), static_cast<int>(k)) != writes.end();
      if (variable != kNone) visit(variable, written);
    }
  }

  bool conflicts(uint32_t i) const {
    bool found = false;
    each_variable(i, [&](uint32_t variable, bool written) {
      found = found || written_.contains(variable) || (written && touched_.contains(variable));
    });
    return found;
  }
  void add(uint32_t i, const std::string& key) {
    stretch_[key].push_back(i);
    each_variable(i, [&](uint32_t variable, bool written) {
      touched_.insert(variable);
      if (written) written_.insert(variable);
    });
  }
  void end_stretch() {
    for (auto& [key, members] : stretch_) {
      if (members.size() > 1) groups_.push_back(std::move(members));
    }
    stretch_.clear();
    touched_.clear();
    written_.clear();
  }

  const Partition& partition_;
  const std::vector<std::unique_ptr<Kernel>>& kernels_;
  std::vector<uint32_t> variables_;                       // by resource
  std::map<std::string, std::vector<uint32_t>> stretch_;  // by key
  std::set<uint32_t> touched_, written_;                  // variables of the stretch
  std::vector<std::vector<uint32_t>> groups_;
};

}  // namespace

std::vector<std::vector<uint32_t>> find_joins(const Partition& partition,
                                              const std::vector<std::unique_ptr<Kernel>>& kernels) {
  return Joiner(partition, kernels).run();
}

}  // namespace leat
