// Plans that several tests look at.
#pragma once

#include "tests/scheduler/scheduler_testing.h"

namespace leat {

// Training of a small convolutional network on [32,1,8,8], mirrored. The golden files show it. Its
// data is x.npy and y.npy in `directory`, which ends in '/'.
Plan small_plan(int shards, int workers, const std::string& directory = "");
// The same with its variables on parameter servers.
Plan small_server_plan(int shards, int workers, int servers, const std::string& directory = "");

// A shipped model ("fashion_cnn", "fashion_mlp", ...) in 4 shards, mirrored: what a job runs of it.
enum class JobStep { train, init, eval, predict };
Plan shipped_plan(const std::string& model, JobStep step, int workers,
                  DType precision = DType::f32);

}  // namespace leat
