// The commands of `leat` for the numbers of a training: a struct with the arguments of each, and
// the function that runs it, as in commands.h. A name is the folder of a run, or a job of the
// cluster, whose files the command copies first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cli/cluster_commands.h"

namespace leat {

// Prints the rows of metrics.jsonl. A table of the epochs; with `csv` all rows of steps, or with
// `epochs` those of epochs, with a first line of names; with --json an object for each row. With
// `tensorboard` it prints the path of the file that it writes.
struct MetricsCommand {
  ClusterOptions cluster;
  std::string name;
  bool csv = false;
  bool epochs = false;
  // A folder for TensorBoard: its subfolder of the run's name gets a file of events. Empty: none.
  std::string tensorboard;
  // With `tensorboard`: also the graph of the model, and the distributions of its weights in each
  // checkpoint, which are read whole.
  bool graph = false;
  bool histograms = false;
  // With `tensorboard`: also the distributions of the gradients in the step after each checkpoint,
  // which this process computes from the run's data. `set` changes keys of the run's job file, such
  // as data.root.
  bool gradients = false;
  std::vector<std::string> set;
};
int run_metrics(const MetricsCommand& command);

// Draws the curve of one metric of each run, in the terminal, into an SVG file, or into a PNG file
// with Debian's program rsvg-convert. With --json it prints the points instead, an object for each.
struct PlotCommand {
  ClusterOptions cluster;
  std::vector<std::string> names;
  std::string metric = "loss";
  int64_t smooth = 0;  // each point becomes the mean of itself and so many on either side
  std::string output;  // a file named .svg or .png; empty: the terminal
};
int run_plot(const PlotCommand& command);

// Prints how two runs differ: the keys of their job files, their last epochs and best numbers,
// their times, whether their weights are the same, and the curves of their losses. Exit code 0 in
// any case; kExitFailed if one of them cannot be read.
struct CompareCommand {
  ClusterOptions cluster;
  std::string first, second;
};
int run_compare(const CompareCommand& command);

}  // namespace leat
