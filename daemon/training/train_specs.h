// Translates a job's settings into the specs of the graphs that the job computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/spec/job.h"
#include "ops/data/dataset.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// A data set as the hosts found it.
struct FoundDataset {
  DatasetInfo info;
  std::vector<std::string> files;  // as in DatasetReport
  std::vector<std::string> classes = {};
};

// The data set that the job file describes, with the root of the job.
DatasetFiles dataset_files(const Job& job, const Job::Files& files);
// The sets of validation data, in the order of the job. The job outlives the result.
std::vector<const Job::Files*> validation_files(const Job& job);
// The attributes of the op that reads rows of a data set. Names of files are relative to the data
// root of the job on each host; `found` has them without patterns. The seed is stored as int64; the
// op casts it back.
Attrs reader_attrs(const DatasetFiles& names, const FoundDataset& found, bool shuffle,
                   uint64_t seed);
// The rows that the steps of an epoch of the job read: those of the training data, or as
// ops/data/sharding.h says with data.sharding. REQUIRES: check_sharding().
int64_t epoch_rows(const Job& job, const DatasetInfo& info);
// The first term of the loss, and the output of the model that it is made from.
LossSpec loss_spec(const Job& job);
// All terms, with their outputs.
std::vector<LossSpec> loss_specs(const Job& job);
// The part of the job's steps that computes in 16 bits.
AutocastSpec autocast_spec(const Job& job);
// True if the job asks for the accuracy of each step.
bool has_accuracy(const Job& job);
// The metrics that an evaluation computes beside the loss and the accuracy.
std::vector<MetricSpec> evaluated_metrics(const Job& job);
// The spec of the job's training graph. `found`: the training data. `total_steps`: of the job; a
// learning rate schedule that names no end of its decay ends with the job. The result does not
// refer to the job. Parameters whose names match a pattern of model.freeze are frozen: '*' stands
// for any characters, '?' for one.
TrainSpec train_spec(const Job& job, const FoundDataset& found, int64_t total_steps);

}  // namespace leat
