// The commands of `leat`: what each was asked for, and the function that does it. command_line.h
// makes these structs from the arguments; each run_ function prints its data to stdout and
// everything else to stderr, and returns the process's exit code (exit_code.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/spec/job.h"

namespace leat {

// Which job, and what the command line changes in it.
struct JobOptions {
  std::string file;                // the job file; empty when --resume gives the job
  JobOverrides overrides;          // --workers, --seed, --set
  std::optional<int64_t> threads;  // of each worker; unset: the cores shared out evenly
};

struct TrainCommand {
  JobOptions job;
  std::string output;    // the run's folder; empty: a new one under leat-runs/
  std::string resume;    // a run's folder to go on from; empty: start anew
  bool json = false;     // one JSON object a line on stdout
  bool profile = false;  // print where the steps' time went
  ColorMode color = ColorMode::automatic;
};
int run_train(const TrainCommand& command);

struct PlanCommand {
  JobOptions job;
  bool json = false;
  ColorMode color = ColorMode::automatic;
};
int run_plan(const PlanCommand& command);

struct PredictCommand {
  std::string run;     // the folder that leat train left
  std::string input;   // .npy or IDX, .gz of it too
  std::string output;  // .npy; empty: the predicted classes on stdout
  bool json = false;
  ColorMode color = ColorMode::automatic;
};
int run_predict(const PredictCommand& command);

struct GraphShowCommand {
  std::string file;
  bool expand = false;  // the ONNX nodes and not the layers
  ColorMode color = ColorMode::automatic;
};
int run_graph_show(const GraphShowCommand& command);

struct GraphCheckCommand {
  std::string file;
  ColorMode color = ColorMode::automatic;
};
int run_graph_check(const GraphCheckCommand& command);

struct GraphConvertCommand {
  std::string input;
  std::string output;  // the format follows from its extension
  ColorMode color = ColorMode::automatic;
};
int run_graph_convert(const GraphConvertCommand& command);

}  // namespace leat
