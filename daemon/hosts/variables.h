// The variables of a job as named tensors: what checkpoints and weights files hold.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/state/resources.h"

namespace leat {

// What the values that are written to a job's variables must be.
enum class Restore : uint8_t {
  everything,  // each variable of the job and no other, of its dtype: a checkpoint
  weights,     // each variable but the optimizer's and no other; cast to its dtype: a weights file
  superset,    // a value for each variable, of its dtype; others are passed over: to predict
};

// Copies, by name.
std::map<std::string, Tensor> read_variables(JobResources& resources);

// Checks all, then writes all. invalid_argument names the variable that is missing, not known, or
// of another type. The job's Commits hear that they are the values after `step` steps, or of no
// step in particular.
Status write_variables(JobResources& resources, const std::map<std::string, Tensor>& values,
                       Restore what, std::optional<uint64_t> step = {});

}  // namespace leat
