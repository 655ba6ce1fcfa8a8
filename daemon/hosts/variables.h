// The variables of a job as named tensors, as checkpoints and weights files contain them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

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
};

// Returns copies by name. REQUIRES: no step runs.
std::map<std::string, Tensor> read_variables(JobResources& resources);

// Checks all values, then writes all of them. invalid_argument names the variable that is missing,
// not known, or of another type. Tells the job's Commits that the variables are the values after
// `step` steps, or belong to no particular step.
Status write_variables(JobResources& resources, const std::map<std::string, Tensor>& values,
                       Restore what, std::optional<uint64_t> step = {});

}  // namespace leat
