// The input of a training: its model and its data, read and checked against each other.
#pragma once

#include <memory>
#include <string>

#include "daemon/checkpoint/manifest.h"
#include "daemon/hosts/host_group.h"
#include "daemon/spec/job.h"
#include "daemon/training/model.h"
#include "devices/base/files.h"
#include "ops/data/dataset.h"

namespace leat {

struct TrainingInput {
  Model model;
  std::string graph_sha256;  // of the model's file
  bool every_float = false;  // see OnnxOptions
  DatasetInfo train;
  DatasetInfo validation;  // if the job has validation data
  DataOrder order;         // of the training data

  // Only the parameters of the model are trained, not every float in its file.
  bool trains_parameters(const Job& job) const {
    return job.model.graph.ends_with(".onnx") && !every_float;
  }
};

// Reads the model and the headers of the data sets. The data must be the same on all hosts:
// failed_precondition names two that differ. invalid_argument if the model does not fit the data,
// the loss, the batch or the strategy. `catalogue` outlives the result.
Result<std::unique_ptr<TrainingInput>> read_input(const Catalogue& catalogue, Files& files,
                                                  const Job& job, const HostGroup& hosts,
                                                  bool every_float);

}  // namespace leat
