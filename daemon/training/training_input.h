// The input of a training: its model and its data, read and checked against each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/checkpoint/manifest.h"
#include "daemon/hosts/host_group.h"
#include "daemon/spec/job.h"
#include "daemon/training/model.h"
#include "daemon/training/train_specs.h"
#include "devices/base/files.h"
#include "ops/data/dataset.h"

namespace leat {

// Trainer owns it for its whole life. Nothing in it changes after read_input(), except that Trainer
// gives the initial values of the model back once the hosts have them.
struct TrainingInput {
  Model model;
  // The SHA-256 of the model's file, in hexadecimal. Checkpoints record it, so that a training that
  // continues can tell that the file has changed.
  std::string graph_sha256;
  // The rule of runs that older versions began: all floats of an .onnx file are trained, also those
  // that are no parameters. See OnnxOptions.
  bool every_float = false;
  FoundDataset train;
  // Empty if the job has no validation data.
  FoundDataset validation;
  // Identifies the order of the training data: its fingerprints, its size, the batch, whether it is
  // shuffled. A checkpoint with another order cannot continue the job.
  DataOrder order;
  // The other sets of validation data, as Job::Data::more_validation has them.
  std::vector<FoundDataset> more_validation = {};

  // Only the parameters of the model are trained, not every float in its file.
  bool trains_parameters(const Job& job) const {
    return job.model.graph.ends_with(".onnx") && !every_float;
  }
};

// The same for a job that is only to be evaluated: its training data are not looked at, and the
// result has none. REQUIRES: the job has validation data.
Result<std::unique_ptr<TrainingInput>> read_evaluation_input(const Catalogue& catalogue,
                                                             Files& files, const Job& job,
                                                             const HostGroup& hosts,
                                                             bool every_float);

// Reads the model and the headers of the data sets. The data must be the same on all hosts:
// failed_precondition names two that differ. invalid_argument if the model does not fit the data,
// the loss, the batch or the strategy. `catalogue` outlives the result. Sets the data root of the
// job on each host. Reads the headers on the first host and on each other one that is not in this
// process, and looks at all labels on the first host if the loss is cross_entropy, so it may block
// for long on large data. REQUIRES: there is at least one host.
Result<std::unique_ptr<TrainingInput>> read_input(const Catalogue& catalogue, Files& files,
                                                  const Job& job, const HostGroup& hosts,
                                                  bool every_float);

}  // namespace leat
