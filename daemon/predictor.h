// Runs a trained model on given rows.
#pragma once

#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/tensor.h"
#include "ops/op.h"

namespace leat {

// The model's output for `input`, row by row, with the weights that training left in `run` (the
// folder of `leat train`): its job.yaml and weights.safetensors. Input rows are rescaled as in
// training. A shape that has as many elements a row as the model's input is reshaped to it.
Result<Tensor> predict(const Catalogue& catalogue, Files& files, const std::string& run,
                       const Tensor& input);

}  // namespace leat
