// The limit on the memory that a job's data sets may take.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "devices/base/status.h"
#include "ops/state/resources.h"

namespace leat {

// Asked before a data set takes so many bytes, by the name of its features; an error refuses them.
// The bytes are those that the files' headers tell, which is all that is read of them, whatever
// they inflate to; an array in Fortran's order takes twice as many. What was granted counts for as
// long as the job's resources are there, once for each name.
using GrantMemory = std::function<Status(const std::string& name, uint64_t bytes)>;

// From now on Dataset::find_or_open() asks for that job.
void limit_dataset_memory(JobResources& resources, GrantMemory grant);

}  // namespace leat
