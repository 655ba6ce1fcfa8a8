// The events that `leat train --json` prints on stdout: one JSON object on each line, with the key
// "event". Later versions only add keys. The order of a run is started, (epoch | validation |
// checkpoint)*, and last finished or interrupted. A value that does not exist is null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/metrics/epoch_result.h"

namespace leat {

// The facts of a run on which the weights' hash depends; nothing else about the run changes it.
// They are shown with each hash. Threads and workers are not among them: they change no result,
// unless the weights depend on timing.
struct RunIdentity {
  int64_t shards = 1;
  uint64_t seed = 0;
  // The CPU's model name: kernels for another instruction set may round differently.
  std::string cpu;
  std::string precision = "float32";  // of Job::precision
};

// {"event": "started", "api_version": "leat/v1", "job", "run", "steps", "start_step",
//  "global_batch_size", "strategy", "workers", "threads", "shards", "seed", "cpu",
//  "precision"}
// The first event.
struct StartedEvent {
  std::string job;    // its name
  std::string run;    // its folder
  int64_t steps = 0;  // of the whole job
  // The steps that were done before; 0 unless the run is resumed.
  int64_t start_step = 0;
  // Rows of a step over all shards.
  int64_t global_batch_size = 0;
  std::string strategy;
  int64_t workers = 1;
  int64_t threads = 1;  // of each worker
  RunIdentity identity;
};
std::string json_of(const StartedEvent& event);

// {"event": "epoch", "epoch", "step", "seconds", "samples_per_second", "loss", "accuracy",
//  "val_loss", "val_accuracy"}, and the job's other metrics by their names, such as "val_f1".
// Comes after the evaluation of the epoch.
struct EpochEvent {
  int64_t epoch = 1;  // from 1
  int64_t step = 0;   // steps of the job that are done
  // The time of training, without the evaluation.
  double seconds = 0;
  double samples_per_second = 0;
  // The mean over the steps of the epoch.
  double loss = 0;
  std::optional<double> accuracy;
  std::optional<double> val_loss;
  std::optional<double> val_accuracy;
  std::vector<NamedNumber> more = {};
};
std::string json_of(const EpochEvent& event);

// {"event": "validation", "step", "val_loss", "val_accuracy", ...}
// An evaluation that has a row of its own in metrics.jsonl, with the numbers of that row.
struct ValidationEvent {
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> numbers;
};
std::string json_of(const ValidationEvent& event);

// {"event": "checkpoint", "step", "path"}
// Comes when the checkpoint is on the disk.
struct CheckpointEvent {
  int64_t step = 0;
  std::string path;
};
std::string json_of(const CheckpointEvent& event);

// {"event": "finished", "run", "weights_sha256", "val_accuracy", "val_loss", "samples_per_second",
//  "steps", "shards", "seed", "cpu", "precision", "depends_on_timing", "steps_skipped",
//  "metrics_missing_rows", "metrics_changed_until"}, with GPUs "gpu_kernels", and the job's other
//  metrics as in an epoch.
// The last event of a training that has done all of its steps.
struct FinishedEvent {
  std::string run;
  std::string weights_sha256;
  std::optional<double> val_accuracy;
  std::optional<double> val_loss;
  double samples_per_second = 0;  // of training, without evaluation
  int64_t steps = 0;
  RunIdentity identity;
  // True if another run of the same job may end with other weights.
  bool depends_on_timing = false;
  int64_t steps_skipped = 0;
  // The rows that metrics.jsonl has lost: see MetricsLoss.
  int64_t metrics_missing_rows = 0;
  // Some rows up to this step were changed; 0, printed as null: none.
  int64_t metrics_changed_until = 0;
  // How the kernels of GPUs compute: KernelWays::text(). "" without a GPU; then the event lacks it.
  std::string gpu_kernels = {};
  std::vector<NamedNumber> more = {};
};
std::string json_of(const FinishedEvent& event);

// {"event": "interrupted", "run", "step", "checkpoint"}
// The last event of a training that Ctrl-C or SIGTERM ended. An error gives no event: it is on
// stderr.
struct InterruptedEvent {
  std::string run;
  int64_t step = 0;
  // The newest checkpoint, from which `leat train --resume RUN` continues.
  std::string checkpoint;
};
std::string json_of(const InterruptedEvent& event);

}  // namespace leat
