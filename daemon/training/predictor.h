// Runs a trained model on given rows.
#pragma once

#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/op.h"

namespace leat {

// The model's output for `input`, row by row, with the weights that training left in `run` (the
// folder of `leat train`): its job.yaml and weights.safetensors. Input rows have the shape of the
// model's, as in training (row_shape.h), and are rescaled as there. A model with a fixed batch gets
// batches of that size, the last one filled up with zeros, whose rows are left out.
Result<Tensor> predict(const Catalogue& catalogue, Files& files, const std::string& run,
                       const Tensor& input);

}  // namespace leat
