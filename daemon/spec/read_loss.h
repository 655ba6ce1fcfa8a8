// Reads and prints the key `loss` of a job file.
#pragma once

#include <string>

#include "daemon/base/yaml_reader.h"
#include "daemon/spec/job.h"

namespace leat {

// Reads job.loss and job.more_losses. Errors go to the reader of the map. `top` is the map of the
// whole job.
void read_loss(YamlMap& top, Job& job);
// The value of the key, on one line.
std::string print_loss(const Job& job);

}  // namespace leat
