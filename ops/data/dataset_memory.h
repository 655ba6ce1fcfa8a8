// The limit on the memory of a job's data sets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "devices/base/status.h"
#include "ops/state/resources.h"

namespace leat {

// The function that grants a data set this number of bytes, by the name of its features; an error
// refuses them. The number comes from the files' headers, which are all that is read by then,
// whatever the files inflate to; an array in Fortran's order needs twice as many. A grant lasts
// while the job's resources exist, and is counted once for each name.
using GrantMemory = std::function<Status(const std::string& name, uint64_t bytes)>;

// From now on Dataset::find_or_open() calls `grant` for that job, on the thread of its caller and
// under the lock of the resources' table: `grant` must not use that table. Data sets that are open
// already are not asked about again. An empty function removes the limit.
void limit_dataset_memory(JobResources& resources, GrantMemory grant);

}  // namespace leat
