// The weights that a job starts from instead of those of its initializers: model.weights of the job
// file.
#pragma once

#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

// The values of a file under the names of the model's variables.
struct InitialWeights {
  Variables values;
  // The variables that the file lacks, which keep their initializers; only if the job is not
  // strict.
  std::vector<std::string> missing;
  // For people: which variables keep their initializers, and what of the file was not used.
  std::vector<std::string> notes;
};

// Reads the tensors of a file by its extension: .npz, .onnx (the initializers that could be
// weights), else safetensors. unimplemented for an element type that DType lacks; errors of
// reading the file.
Result<Variables> read_weights_file(Files& files, const std::string& path);

// The name that `name` of the file has in the model: that of the first rule whose glob matches.
// Each '*' of the rule's second name is what the '*' at its place of the first stands for, and a
// star takes as little as it can.
std::string renamed(const std::string& name,
                    const std::vector<std::pair<std::string, std::string>>& rules);

// Reads the file that the job names and compares it with the variables of `model`, expanded.
// invalid_argument names all variables that the file lacks, all names that the model lacks (both
// only if the job is strict), all tensors of another shape, and names that two tensors would get.
Result<InitialWeights> read_initial_weights(Files& files, const Job::Model& job,
                                            const Graph& model);

}  // namespace leat
