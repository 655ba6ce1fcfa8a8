// Reads the keys `precision` and `matmul_precision` of a job file. Private to job_reader.cc.
#pragma once

#include "daemon/base/yaml_reader.h"
#include "daemon/spec/job.h"

namespace leat {

// `precision` is a name, or a map with what a step computes in (docs/job.md). Without it a job
// computes in float32. A job in float16 scales its loss dynamically unless the file says otherwise;
// a program scales its own losses. `matmul_precision` is the name of what a GPU may round the
// factors of products to. Errors are those of the reader.
// REQUIRES: the strategy, the shards and the program of `job` have been read.
void read_precision(YamlMap& top, Job& job);

}  // namespace leat
