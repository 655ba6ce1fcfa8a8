// The events of a training, and the results that it reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/metrics/metrics_log.h"

namespace leat {

// The result of a step, and the mean over those steps of its epoch that are done and not skipped.
struct StepResult {
  // NaN or infinite if the step's loss was.
  double loss = 0;
  // A fraction from 0 to 1, if the job asks for it.
  std::optional<double> accuracy = {};
  double mean_loss = 0;
  std::optional<double> mean_accuracy = {};
  std::vector<NamedNumber> mean_more = {};  // likewise the job's other numbers of steps
  // The skipped steps of the job so far: see Job::OnNan::skip.
  int64_t skipped_steps = 0;
};

struct Evaluation {
  // The mean over all rows of the validation data, not over its batches.
  double loss = 0;
  std::optional<double> accuracy;
  std::vector<NamedNumber> metrics = {};  // the job's others, by their names without "val_"
  // With confusion_matrix: [C,C], how many labels of each class the model takes for each class.
  std::vector<double> confusion = {};
};

// An evaluation of all sets of the validation data.
struct ValidationResult {
  int64_t step = 0;  // the steps of the job that are done
  Evaluation first;  // of the first set
  // Of all sets, in the order of the job: "val_loss", "val_accuracy" for the first one, and
  // "NAME_loss", "NAME_accuracy" for the others.
  std::vector<std::pair<std::string, double>> numbers;
};

// The state from which a training continues.
enum class TrainSource : uint8_t {
  start,       // none: it begins at step 0
  checkpoint,  // of its folder
  memory,      // of hosts that hold a whole step
};
// "start", "checkpoint" or "memory": the notation of logs and of the API.
std::string_view name_of(TrainSource source);

// The result of Trainer::run(). A training ends in one of three ways: it has done all of its steps;
// it was stopped (interrupted); or it yielded, so that another training continues the job.
struct TrainOutcome {
  // The hash of the weights by name: see weights_hash.h. Jobs whose results do not depend on timing
  // give the same hash for any number of threads. Empty if the hosts were aborted, see
  // TrainOptions::stop_grace, or if the training has yielded.
  std::string weights_sha256;
  // The result of the last evaluation; nothing if the job has no validation data.
  std::optional<Evaluation> validation;
  // Over the time of training in this process; evaluations are left out. 0 if no step was trained.
  double samples_per_second = 0;
  int64_t steps = 0;  // done
  bool interrupted = false;
  // All hosts have done exactly `steps`, and their memory still holds the variables of that step.
  bool yielded = false;
  // Of a training that has yielded: a checkpoint of `steps` exists, or `steps` is 0.
  bool saved = false;
  // The path of the newest checkpoint that the training wrote or began from; empty if there is
  // none.
  std::string checkpoint;
  // With TrainOptions::profile: a table of the kernels' times, for people.
  std::string profile;
  // Of a job with a quorum: rows that were computed for a step that was closed without them.
  int64_t dropped_rows = 0;
  // Of all steps that are done.
  int64_t skipped_steps = 0;
  // Of a job that keeps its best weights: the epoch that they are of.
  std::optional<EpochResult> best;
  MetricsLoss lost_metrics;  // the rows that metrics.jsonl lacks of this training
};

// Receives the events of a training, in order, on the thread that calls Trainer::run(). The calls
// come between two steps, so an observer that takes long delays the training. The observer outlives
// the training.
//
// * A training calls lost_metrics() if there is a loss, and resumed(), then started().
// * For each epoch follow epoch_begun(), stepped() once a step, and epoch_ended(). validated()
// comes
//   between two steps.
// * checkpointed(), warned(), waits() and noted() may come at any time.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // `first_step`: the steps that are done already. `steps`: those of the whole job.
  virtual void started(int64_t first_step, int64_t steps) = 0;
  // Before started(): the training continues after so many steps, from that source.
  virtual void resumed(int64_t /*step*/, TrainSource /*from*/) {}
  // After started(), if steps were done before: each of the last epochs that had ended, ...
  virtual void epoch_recalled(const EpochResult& /*result*/) {}
  // ... and the result of the last step with its epoch.
  virtual void recalled(int64_t /*epoch*/, int64_t /*epochs*/, const StepResult& /*last*/) {}
  // `first_step`: the steps of this epoch that are done already, which is more than 0 for an epoch
  // that another training began. Epochs count from 1.
  virtual void epoch_begun(int64_t epoch, int64_t epochs, int64_t steps_of_epoch,
                           int64_t first_step) = 0;
  // `step_of_epoch` counts from 1.
  virtual void stepped(int64_t step_of_epoch, const StepResult& result) = 0;
  // An evaluation of a job that has a row for each of them (Job::has_validation_rows()), between
  // two epochs or at the end of one: then before epoch_ended().
  virtual void validated(const ValidationResult& /*result*/) {}
  // About once a second of training, and before epoch_ended(): by the name of each host, the
  // seconds for which its steps have waited for rows of the data since started(), and how many
  // steps ahead it asks for rows now.
  virtual void waited_for_input(const std::vector<NamedNumber>& /*seconds*/,
                                const std::vector<NamedNumber>& /*steps_ahead*/) {}
  // Called after the evaluation of the epoch, if there is one.
  virtual void epoch_ended(const EpochResult& result) = 0;
  // The checkpoint of `step` is on the disk, its manifest included; `path` is its folder.
  virtual void checkpointed(int64_t step, const std::string& path) = 0;
  // A message that somebody should read; the training goes on.
  virtual void warned(const std::string& message) = 0;
  // After each audited step, see Job::audit, and before differed(): how many steps this training
  // has audited, how many pairs of a step and a shard, and how many differences it has found.
  virtual void audited(int64_t /*steps*/, int64_t /*pairs*/, int64_t /*differences*/) {}
  // Bits that should be equal differ between workers, see Job::audit: the training fails next, and
  // another one goes back to a checkpoint. `wrong`: the names of the workers that are wrong; none
  // if that cannot be told.
  virtual void differed(const std::vector<std::string>& /*wrong*/, const std::string& message) {
    warned(message);
  }
  // Before started(): metrics.jsonl has lost rows for good. The observer is warned of it, too.
  virtual void lost_metrics(const MetricsLoss& /*loss*/) {}
  // The training stands still until something outside changes. "": it continues.
  virtual void waits(const std::string& /*for_what*/) {}
  // A message for a log that needs no action.
  virtual void noted(const std::string& /*message*/) {}
};

}  // namespace leat
