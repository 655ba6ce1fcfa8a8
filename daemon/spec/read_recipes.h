// Reads and prints the keys of a job file that name metrics: metrics,
// early_stopping and checkpoint.best.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/yaml_reader.h"
#include "daemon/spec/job.h"

namespace leat {

// The readers' errors go to the reader of the map. `top` is the map of the whole job.
// REQUIRES: job.loss and job.data are read.
void read_metrics(YamlMap& top, Job& job);
// REQUIRES, of these: job.metrics is read, too.
void read_early_stopping(YamlMap& top, Job& job);
void read_best(YamlMap& checkpoint, Job& job);
// Reads the keys `monitor` and `mode`.
void read_monitor(YamlMap& map, const Job& job, Job::Monitor& monitor);

// The values of the keys, on one line each.
std::string print_metrics(const std::vector<MetricSpec>& metrics);
std::string print_monitor(const Job::Monitor& monitor);
std::string print_early_stopping(const Job::EarlyStopping& stopping);

// The names of the numbers that each step has beside the loss and the accuracy, each a mean over
// its rows: the terms of a loss that is a sum, then metrics. The training graph fetches them in
// this order. None of a program.
std::vector<std::string> step_numbers(const Job& job);
// The names of the numbers that each epoch of the job has: "loss", "val_accuracy".
std::vector<std::string> epoch_numbers(const Job& job);

}  // namespace leat
