// The variables of a job as named tensors, as checkpoints and weights files contain them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/state/resources.h"

namespace leat {

// The rule that values must meet before they are written to a job's variables.
enum class Restore : uint8_t {
  everything,  // each variable of the job with its dtype, no other but a loss scale's: checkpoints
  weights,     // like everything, but without the optimizer's, and cast to its dtype: for weights
               // files
  superset,    // a value for each variable, with its dtype; others are ignored: for predictions
  some,        // values of variables of the job with their dtypes; the others keep theirs
};

// The state of a job on the devices of one host, as DeviceHost::all_resources() gives it. Each of
// the job's variables is on one of them.
using JobTables = std::vector<JobResources*>;

// Returns copies by name; the error of a device that failed. REQUIRES: no step runs.
Result<std::map<std::string, Tensor>> read_variables(const JobTables& tables);

// The value of a variable in its own memory, which the caller must not write. REQUIRES: its device
// is host-visible, and no step runs while the tensor lives.
Tensor lent_value(const Variable& variable);
// As read_variables(), but with lent_value() where a device is host-visible. REQUIRES: no step runs
// while the tensors live.
Result<std::map<std::string, Tensor>> lend_variables(const JobTables& tables);

// Checks all values, then writes all of them. invalid_argument names the variable that is missing,
// not known, or of another type. Tells the job's Commits that the variables are the values after
// `step` steps, or belong to no particular step.
Status write_variables(const JobTables& tables, const std::map<std::string, Tensor>& values,
                       Restore what, std::optional<uint64_t> step = {});

// The progress of the variables of all tables: that of each, if they agree; else none. REQUIRES: no
// run of the job is in a step.
Held held_by(const JobTables& tables);

// Returns when the devices have made all copies of that direction that are enqueued.
// deadline_exceeded if that takes longer than a minute; the error of a device that failed.
Status await_copies(const JobTables& tables, QueueFor direction);

}  // namespace leat
