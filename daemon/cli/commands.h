// The commands of `leat`: a struct with the arguments of each, and the function that runs it.
// command_line.h makes these structs from the command line. Each run_ function prints its data to
// stdout and everything else to stderr, and returns the process's exit code (exit_code.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/spec/job.h"

namespace leat {

// The job of a command, and the changes that the command line makes in it.
struct JobOptions {
  std::string file;                // the job file; empty if --resume names the job
  JobOverrides overrides;          // --workers, --seed, --set
  std::optional<int64_t> threads;  // of each worker; unset: the workers divide the cores equally
};

// Trains a job on this machine.
struct TrainCommand {
  JobOptions job;
  std::string output;    // the run's folder; empty: a new one under leat-runs/
  std::string resume;    // a run's folder to continue; empty: start anew
  bool json = false;     // one JSON object on each line of stdout
  bool profile = false;  // print a profile of the steps' time
  ColorMode color = ColorMode::automatic;
};
int run_train(const TrainCommand& command);

// Prints the plan of a job.
struct PlanCommand {
  JobOptions job;
  bool json = false;
  ColorMode color = ColorMode::automatic;
};
int run_plan(const PlanCommand& command);

// Computes the predictions of a trained model.
struct PredictCommand {
  std::string run;     // a folder that `leat train` wrote
  std::string input;   // .npy or IDX, also with .gz
  std::string output;  // .npy; empty: print the predicted classes to stdout
  bool json = false;
  ColorMode color = ColorMode::automatic;
};
int run_predict(const PredictCommand& command);

// Prints a graph as text.
struct GraphShowCommand {
  std::string file;
  bool expand = false;  // show ONNX nodes instead of layers
  ColorMode color = ColorMode::automatic;
};
int run_graph_show(const GraphShowCommand& command);

// Checks whether a graph is valid.
struct GraphCheckCommand {
  std::string file;
  ColorMode color = ColorMode::automatic;
};
int run_graph_check(const GraphCheckCommand& command);

// Writes a graph in another format.
struct GraphConvertCommand {
  std::string input;
  std::string output;  // its extension decides the format
  ColorMode color = ColorMode::automatic;
};
int run_graph_convert(const GraphConvertCommand& command);

}  // namespace leat
