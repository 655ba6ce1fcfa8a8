// The weights of a run, for commands that use its trained model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Values of the model's variables, perhaps with others, such as the optimizer's.
struct RunWeights {
  Variables values;
  std::string path;             // where they were read
  std::optional<int64_t> step;  // after so many steps of the job, if the file says so
  bool every_float = false;     // the rule by which they were trained: see OnnxOptions
};

// The path of the weights that a training leaves at its end.
std::string weights_path(const std::string& run);
// The folder of the checkpoints of the run in folder `run`.
std::string checkpoints_path(const Job& job, const std::string& run);

// Reads a file of weights: safetensors, npz or ONNX, by its extension.
Result<RunWeights> read_weights_of_file(Files& files, const std::string& path);
// The step in the metadata of a file of safetensors, whose values are not read.
Result<std::optional<int64_t>> step_of_weights(Files& files, const std::string& path);
// Reads and verifies the checkpoint in the folder `path`.
Result<RunWeights> read_weights_of_checkpoint(Files& files, const std::string& path);

}  // namespace leat
