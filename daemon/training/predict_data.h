// Predicts the rows of a data set with the trained model of a run, batch by batch.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/spec/job.h"
#include "daemon/training/run_weights.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/data/dataset_files.h"
#include "ops/graph/op.h"

namespace leat {

// Takes the predictions of rows, in the order of the data.
class PredictionSink {
 public:
  virtual ~PredictionSink() = default;
  // Once, before the first row. `shape`: of all predictions; dimension 0 counts the rows.
  virtual Status begin(DType dtype, const Shape& shape) = 0;
  // The predictions of the next `rows` rows: the first ones of `batch`, which may have more.
  virtual Status take(const Tensor& batch, int64_t rows) = 0;
};

// Passes the model's first output for each row of `data` to `sink`. The columns are bound to the
// model's inputs, and rescaled, as in a training of the job; labels are not needed. Only the rows
// of a few steps are in memory, but for what Dataset::open() reads whole. A model with a fixed
// batch gets batches of that size, and others 256 rows, or fewer if they are large. Computes in
// this process on all usable cores. Blocks; a step may take 2 minutes, then deadline_exceeded.
// invalid_argument if the data do not fit the model, if the weights lack a variable, or if the
// output has no row for each input row; cancelled if `stop` became true; the errors of the sink.
Status predict_data(const Catalogue& catalogue, Files& files, const Job& job,
                    const RunWeights& weights, const DatasetFiles& data, PredictionSink& sink,
                    const std::function<bool()>& stop);

}  // namespace leat
