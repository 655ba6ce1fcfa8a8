// Runs a trained model on given rows.
#pragma once

#include <map>
#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/op.h"

namespace leat {

// The rows of each input of a model, by its name. A model with one input may have them under "".
using PredictInputs = std::map<std::string, Tensor>;

// The model's first output for `inputs`, row by row, with the weights that training left in `run`
// (the folder of `leat train`): its job.yaml and weights.safetensors. Input rows have the shape of
// the model's, as in training (row_shape.h), and are rescaled as there. A model with a fixed batch
// gets batches of that size, the last one filled up with zeros, whose rows are left out. Computes
// in this process on all usable cores, 256 rows at a time. Blocks; a step may take 2 minutes, then
// deadline_exceeded. invalid_argument if an input has no rows or rows of another shape, if
// inputs are missing or have different numbers of rows, or if the output has no row for each input
// row; errors of reading the folder's files.
Result<Tensor> predict(const Catalogue& catalogue, Files& files, const std::string& run,
                       const PredictInputs& inputs);

}  // namespace leat
