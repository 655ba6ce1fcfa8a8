// Trains a job on a group of hosts: compiles its graphs, steps them, evaluates, and writes
// checkpoints, metrics and weights into the run's folder.
//
// A run's folder:
//   job.yaml              the job as it runs, every key written out
//   model.onnxtxt         a copy of the model's graph; graph/model.onnx if it has data beside it
//   classes.txt           the names of the classes, if the data has them: class_names.h
//   metrics.jsonl         one object a step, and one an epoch: daemon/metrics/metrics_log.h
//   checkpoints/step-N/   see daemon/checkpoint/checkpoint_store.h
//   provenance.txt        the run's id, key and job files: see daemon/checkpoint/provenance.h
//   weights.safetensors   the trained weights, written at the end
//   best_weights.safetensors  those of the best epoch, if the job keeps them
//   confusion_matrix.json     of the last validation, if the job has that metric
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/hosts/host_group.h"
#include "daemon/spec/job.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/job_variables.h"
#include "daemon/training/phase_times.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/train_options.h"
#include "daemon/training/training_input.h"
#include "daemon/training/training_loop.h"
#include "daemon/training/training_parts.h"
#include "devices/base/clock.h"
#include "devices/base/files.h"

namespace leat {

// A training of one job in this process, on hosts that may be elsewhere. It owns the hosts, and so
// it must be destroyed before `catalogue` and `files`.
//
//   auto trainer = Trainer::create(catalogue, files, job, {.folder = "run"});
//   if (!trainer.ok()) return trainer.status();
//   auto outcome = (*trainer)->run(observer, [] { return false; });
//   if (outcome.ok()) print(outcome->weights_sha256);
//
// Threads: one.
class Trainer {
 public:
  // Reads the model and the headers of the data sets; errors are those of read_input(). `catalogue`
  // and `files` outlive the trainer. `hosts` has as many hosts as the job trains on. With
  // TrainOptions::resume it also reads the manifest of the newest checkpoint. Writes nothing.
  // Blocks on the hosts.
  static Result<std::unique_ptr<Trainer>> create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options,
                                                 std::unique_ptr<HostGroup> hosts);
  // The same on hosts in this process. The number of hosts is that of the job or of
  // TrainOptions::workers. Without TrainOptions::threads they divide the usable cores between them,
  // at least one for each.
  static Result<std::unique_ptr<Trainer>> create(const Catalogue& catalogue, Files& files, Job job,
                                                 TrainOptions options);

  // Trains until the job's last step, or until `stop` is true between two steps. After unavailable
  // and deadline_exceeded another attempt, with resume and on other hosts, may succeed; other
  // errors would come again. Called once. Blocks. The folder stays as it is until the plans are
  // compiled, so an error in the job replaces nothing of an earlier run. `stop` is asked often, on
  // this thread, and must not block. failed_precondition if the folder has checkpoints and the
  // training does not resume, or if a loss is not finite and the job asks to fail;
  // resource_exhausted if the disk stays full for ten minutes.
  Result<TrainOutcome> run(TrainObserver& observer, const std::function<bool()>& stop);

  // The plans of the training step, compiled but not run: see JobPlans::compile_training(). For
  // `leat plan`. Blocks for the compilation; the hosts compute nothing.
  Result<std::vector<std::shared_ptr<const Plan>>> plan_training();
  // The same for the evaluations on validation data. REQUIRES: plan_training() returned ok.
  Result<std::vector<std::shared_ptr<const Plan>>> plan_evaluations();
  // The bytes of the first values of the variables, which the process has until the hosts have
  // them.
  uint64_t initial_value_bytes() const;

  int64_t total_steps() const { return parts_.length.steps; }
  int64_t rows() const { return parts_.length.records; }  // of the training data
  int threads() const { return options_.threads; }        // of each host
  const Job& job() const { return job_; }
  // Messages about the model's file, for people: see LoadedGraph::notes.
  const std::vector<std::string>& notes() const { return input_->model.notes; }

 private:
  Trainer(const Catalogue& catalogue, Files& files, Job job, TrainOptions options,
          std::unique_ptr<HostGroup> hosts, std::unique_ptr<TrainingInput> input, PhaseTimes times);

  const Job job_;
  const TrainOptions options_;
  const std::unique_ptr<HostGroup> hosts_;
  const std::unique_ptr<TrainingInput> input_;
  const TrainingParts parts_;
  PhaseTimes times_;
  JobCheckpoints checkpoints_;
  JobPlans plans_;
  JobVariables variables_;
  std::unique_ptr<TrainingLoop> loop_;  // from run() on; it uses the rest
};

}  // namespace leat
