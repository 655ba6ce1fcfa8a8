// `leat evaluate`: the loss and the metrics of a trained model.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/cluster_commands.h"

namespace leat {

// Evaluates the model of a run on its validation data, or on other data, in this process. Prints a
// line for each evaluation on stdout, with --json an object.
//
// With `follow` it evaluates each checkpoint of the run that has no row in the output file yet, the
// older first, and then each new one as it appears, until the run has ended. The file has one JSON
// object on each line, {"step": 100, "val_loss": 0.5, ...}, and is replaced as a whole by each row,
// so that it is never torn.
struct EvaluateCommand {
  ClusterOptions cluster;
  std::string name;               // a run's folder, or a job of the cluster
  std::vector<std::string> data;  // see data_overrides()
  std::vector<std::string> set;   // overrides of the job file
  // A file of weights: here, or else of the run. Empty: weights.safetensors of the run or, if it
  // has none yet, its newest checkpoint.
  std::string weights;
  std::optional<int64_t> checkpoint;  // the step of the checkpoint to evaluate
  std::optional<int64_t> threads;     // unset: all cores
  bool follow = false;
  std::string
      output;  // with `follow`; empty: evaluations.jsonl of the folder, or JOB-evaluations.jsonl
  std::optional<std::chrono::milliseconds> timeout;  // of `follow`: exit code 124 afterwards
};
int run_evaluate(const EvaluateCommand& command);

}  // namespace leat
