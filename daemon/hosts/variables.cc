#include "daemon/hosts/variables.h"

#include <cstring>
#include <vector>

#include "devices/base/text.h"
#include "scheduler/graph/train_graph.h"

namespace leat {
namespace {

// Returns the value with the variable's type, if the rule allows the cast.
Result<Tensor> fit(const Variable& variable, const Tensor& value, Restore what) {
  if (value.shape() == variable.shape()) {
    if (value.dtype() == variable.dtype()) return value;
    if (what == Restore::weights) return value.cast(variable.dtype());
  }
  return invalid_argument(cat("variable '", variable.name(), "': expected ", variable.dtype(),
                              variable.shape(), ", the file has ", value.dtype(), value.shape()));
}

// A run may go on with another loss scale, or with none: its state begins anew then.
bool is_optional(const std::string& name) {
  return name == kLossScaleExponent || name == kLossScaleGoodSteps;
}

}  // namespace

// The tensors are copies, since the next step changes the variables in place.
std::map<std::string, Tensor> read_variables(JobResources& resources) {
  std::map<std::string, Tensor> out;
  for (const Variable* variable : resources.variables()) {
    Tensor copy(variable->dtype(), variable->shape());
    if (copy.bytes() > 0) std::memcpy(copy.raw(), variable->data(), copy.bytes());
    out.emplace(variable->name(), std::move(copy));
  }
  return out;
}

Status write_variables(JobResources& resources, const std::map<std::string, Tensor>& values,
                       Restore what, std::optional<uint64_t> step) {
  // The first pass looks for values without a variable, the second for variables without a value.
  if (what != Restore::superset) {
    for (const auto& [name, value] : values) {
      if (!resources.find_variable(name) && !is_optional(name))
        return invalid_argument(
            cat("variable '", name, "': the file has it, the job's graph does not"));
    }
  }
  // All values are checked before the first is written, so an error leaves the variables as they
  // were.
  std::vector<std::pair<Variable*, Tensor>> fitted;
  for (Variable* variable : resources.variables()) {
    const auto it = values.find(variable->name());
    if (it != values.end()) {
      LEAT_ASSIGN_OR_RETURN(Tensor value, fit(*variable, it->second, what));
      fitted.emplace_back(variable, std::move(value));
    } else if (what == Restore::everything && is_optional(variable->name())) {
      fitted.emplace_back(variable, Tensor(variable->dtype(), variable->shape()));
    } else if (what != Restore::weights || !variable->name().starts_with(kOptimizerPrefix)) {
      return invalid_argument(
          cat("variable '", variable->name(), "': the job's graph has it, the file does not"));
    }
  }
  // From here on the variables are of no particular step, until declare() says otherwise.
  resources.commits().taint();
  for (auto& [variable, value] : fitted) {
    if (value.bytes() > 0) std::memcpy(variable->data(), value.raw(), value.bytes());
  }
  if (step) resources.commits().declare(*step);
  return {};
}

}  // namespace leat
