// Plans that several tests use.
#pragma once

#include "devices/base/files.h"
#include "tests/scheduler/scheduler_testing.h"
#include "tests/temporary_directory.h"

namespace leat {

// A training of a small convolutional network on [32,1,8,8], mirrored. The golden files show it.
// Its data is x.npy and y.npy in `directory`, which ends in '/'.
Plan small_plan(int shards, int workers, const std::string& directory = "");
// The same with its variables on parameter servers.
Plan small_server_plan(int shards, int workers, int servers, const std::string& directory = "");
// The plans whose steps commit. With `servers` > 0 the variables are on this number of parameter
// servers.
Plan small_recoverable_plan(int shards, int workers, int servers = 0,
                            const std::string& directory = "");
// Writes that data, 64 records, and returns the directory's path in the form that small_plan()
// takes.
std::string write_data(const TemporaryDirectory& directory);
// Runs some steps from fixed variables. Returns all fetches, and the variables of every partition.
std::vector<Bytes> results(PlanRunner& runner, uint64_t steps);

// A shipped model ("fashion_cnn", "fashion_mlp", ...) in 4 shards, mirrored: one of the plans that
// a job runs.
enum class JobStep { train, init, eval, predict };
Plan shipped_plan(const std::string& model, JobStep step, int workers,
                  DType precision = DType::f32);

}  // namespace leat
