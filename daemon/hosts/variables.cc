#include "daemon/hosts/variables.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "devices/base/text.h"
#include "devices/core/lost_device.h"
#include "scheduler/graph/train_graph.h"

namespace leat {
namespace {

constexpr auto kCopyDeadline = std::chrono::minutes(1);

// Returns the value with the variable's type, if the rule allows the cast.
Result<Tensor> fit(const Variable& variable, const Tensor& value, Restore what) {
  if (value.shape() == variable.shape()) {
    if (value.dtype() == variable.dtype()) return value;
    if (what == Restore::weights) return value.cast(variable.dtype());
  }
  return invalid_argument(cat("variable '", variable.name(), "': expected ", variable.dtype(),
                              variable.shape(), ", the file has ", value.dtype(), value.shape()));
}

// A run may go on with another loss scale or schedule, or with none: its state begins anew then.
bool is_optional(const std::string& name) {
  return name == kLossScaleExponent || name == kLossScaleGoodSteps || name == kPlateauCut;
}

}  // namespace

Status await_copies(const JobTables& tables, QueueFor direction) {
  const auto deadline = std::chrono::steady_clock::now() + kCopyDeadline;
  for (JobResources* table : tables)
    LEAT_RETURN_IF_ERROR(
        as_loss_of(table->device(), table->device().queue(direction).settle(deadline)));
  return {};
}

namespace {

// `lends`: lent_value() where there is one.
Result<std::map<std::string, Tensor>> values_of(const JobTables& tables, bool lends) {
  std::map<std::string, Tensor> out;
  for (JobResources* table : tables) {
    for (const Variable* variable : table->variables()) {
      if (lends && table->device().host_visible()) {
        out.emplace(variable->name(), lent_value(*variable));
        continue;
      }
      Tensor copy(variable->dtype(), variable->shape());
      table->device().copy_to_host(copy.raw(), variable->data(), copy.bytes());
      out.emplace(variable->name(), std::move(copy));
    }
  }
  LEAT_RETURN_IF_ERROR(await_copies(tables, QueueFor::copies_out));
  return out;
}

}  // namespace

Tensor lent_value(const Variable& variable) {
  // The memory belongs to the job's resources.
  return Tensor::wrap(variable.dtype(), variable.shape(), variable.data(), {});
}

// The tensors are copies, since the next step changes the variables in place.
Result<std::map<std::string, Tensor>> read_variables(const JobTables& tables) {
  return values_of(tables, false);
}

Result<std::map<std::string, Tensor>> lend_variables(const JobTables& tables) {
  return values_of(tables, true);
}

Status write_variables(const JobTables& tables, const std::map<std::string, Tensor>& values,
                       Restore what, std::optional<uint64_t> step) {
  // The first pass looks for values without a variable, the second for variables without a value.
  if (what != Restore::superset) {
    for (const auto& [name, value] : values) {
      const auto has = [&name = name](JobResources* table) {
        return table->find_variable(name) != nullptr;
      };
      if (std::none_of(tables.begin(), tables.end(), has) && !is_optional(name))
        return invalid_argument(
            cat("variable '", name, "': the file has it, the job's graph does not"));
    }
  }
  // All values are checked before the first is written, so an error leaves the variables as they
  // were.
  struct Fitted {
    JobResources* table;
    Variable* variable;
    Tensor value;
  };
  std::vector<Fitted> fitted;
  for (JobResources* table : tables) {
    for (Variable* variable : table->variables()) {
      const auto it = values.find(variable->name());
      if (it != values.end()) {
        LEAT_ASSIGN_OR_RETURN(Tensor value, fit(*variable, it->second, what));
        fitted.push_back({table, variable, std::move(value)});
      } else if (what == Restore::everything && is_optional(variable->name())) {
        fitted.push_back({table, variable, Tensor(variable->dtype(), variable->shape())});
      } else if (what == Restore::some) {
        continue;
      } else if (what != Restore::weights || !variable->name().starts_with(kOptimizerPrefix)) {
        return invalid_argument(
            cat("variable '", variable->name(), "': the job's graph has it, the file does not"));
      }
    }
  }
  // From here on the variables are of no particular step, until declare() says otherwise.
  for (JobResources* table : tables) table->commits().taint();
  for (const Fitted& each : fitted) {
    each.table->device().copy_to_device(each.variable->data(), each.value.raw(),
                                        each.value.bytes());
  }
  // A device with a memory of its own may copy later than this, and from the values.
  LEAT_RETURN_IF_ERROR(await_copies(tables, QueueFor::copies_in));
  for (JobResources* table : tables) {
    if (step) table->commits().declare(*step);
  }
  return {};
}

Held held_by(const JobTables& tables) {
  std::optional<Held> held;
  for (JobResources* table : tables) {
    if (table->variables().empty()) continue;  // its Commits know of nothing
    Held here = table->commits().held();
    if (!held) {
      held = std::move(here);
    } else if (!here.whole || !held->whole || here.step != held->step) {
      return {};
    }
  }
  return held ? *std::move(held) : tables.front()->commits().held();
}

}  // namespace leat
