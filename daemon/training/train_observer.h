// The events of a training, and the results that it reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/metrics/metrics_log.h"

namespace leat {

// The result of a step, and the mean over those steps of its epoch that are done and not skipped.
struct StepResult {
  double loss = 0;
  std::optional<double> accuracy;
  double mean_loss = 0;
  std::optional<double> mean_accuracy;
  int64_t skipped_steps = 0;  // of the job so far: see Job::OnNan::skip
};

struct Evaluation {
  double loss = 0;  // mean over the rows
  std::optional<double> accuracy;
};

// The state from which a training continues.
enum class TrainSource : uint8_t {
  start,       // none: it begins at step 0
  checkpoint,  // of its folder
  memory,      // of hosts that hold a whole step
};
std::string_view name_of(TrainSource source);  // "start"

struct TrainOutcome {
  std::string weights_sha256;            // empty if the hosts were aborted: see stop_grace
  std::optional<Evaluation> validation;  // of the last evaluation
  double samples_per_second = 0;         // of training, evaluation left out
  int64_t steps = 0;                     // done
  bool interrupted = false;
  bool yielded = false;    // all hosts have done `steps`; there is no weights_sha256
  bool saved = false;      // if it has yielded: a checkpoint of `steps` exists, or `steps` is 0
  std::string checkpoint;  // the last one written; may be empty
  std::string profile;     // with TrainOptions::profile: a table for people
  // Of a job with a quorum: rows that were computed for a step that was closed without them.
  int64_t dropped_rows = 0;
  int64_t skipped_steps = 0;  // of all that are done
  MetricsLoss lost_metrics;   // the rows that metrics.jsonl lacks of this training
};

// Receives the events of a training, in order, on the thread that calls Trainer::run().
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void started(int64_t first_step, int64_t steps) = 0;
  // Before started(): the training continues after so many steps, from that source.
  virtual void resumed(int64_t /*step*/, TrainSource /*from*/) {}
  // After started(), if steps were done before: each of the last epochs that had ended, ...
  virtual void epoch_recalled(const EpochResult& /*result*/) {}
  // ... and the result of the last step with its epoch.
  virtual void recalled(int64_t /*epoch*/, int64_t /*epochs*/, const StepResult& /*last*/) {}
  virtual void epoch_begun(int64_t epoch, int64_t epochs, int64_t steps_of_epoch,
                           int64_t first_step) = 0;
  virtual void stepped(int64_t step_of_epoch, const StepResult& result) = 0;
  virtual void epoch_ended(const EpochResult& result) = 0;
  virtual void checkpointed(int64_t step, const std::string& path) = 0;
  virtual void warned(const std::string& message) = 0;
  // Before started(): metrics.jsonl has lost rows for good. The observer is warned of it, too.
  virtual void lost_metrics(const MetricsLoss& /*loss*/) {}
  // The training stands still until something outside changes. "": it continues.
  virtual void waits(const std::string& /*for_what*/) {}
  // A message for a log that needs no action.
  virtual void noted(const std::string& /*message*/) {}
};

}  // namespace leat
