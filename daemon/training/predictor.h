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
// batches of that size, the last one filled up with zeros, whose rows are left out. Computes in
// this process on all usable cores, 256 rows at a time. Blocks; a step may take 2 minutes, then
// deadline_exceeded. invalid_argument if `input` has no rows or rows of another shape, or if the
// model has several inputs or an output without a row for each input row; unimplemented for a
// symbolic size other than the batch; errors of reading the folder's files.
Result<Tensor> predict(const Catalogue& catalogue, Files& files, const std::string& run,
                       const Tensor& input);

}  // namespace leat
