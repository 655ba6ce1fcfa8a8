// The command `leat predict`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cli/cluster_commands.h"

namespace leat {

// Computes the predictions of a trained model. Prints for each row the class with the highest
// score, the first one of equals; with cluster.json also the score. Exactly one of `inputs` and
// `data` is given.
struct PredictCommand {
  ClusterOptions cluster;
  std::string run;                  // a folder that `leat train` wrote, or a job of the cluster
  std::vector<std::string> inputs;  // .npy or IDX, also with .gz; "NAME=FILE" for an input's name
  std::vector<std::string> data;    // rows of any source: see data_overrides()
  std::vector<std::string> set;     // overrides of the job file
  std::string weights;              // a file in place of the run's weights.safetensors
  std::string output;   // .npy, .csv or .jsonl; empty: print the predicted classes to stdout
  std::string classes;  // a file with the name of a class on each line; empty: numbers
  bool softmax = false;
  int64_t top = 0;  // the classes with the highest scores; 0: all scores
};
int run_predict(const PredictCommand& command);

}  // namespace leat
