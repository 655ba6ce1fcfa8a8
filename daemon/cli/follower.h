// Shows the changes of a job's state, and its epochs in the style of Keras, to people who follow
// the job.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "daemon/cli/progress.h"
#include "daemon/jobs/events.h"

namespace leat {

// Returns the known ones of "loss", "accuracy", "val_loss" and "val_accuracy", in this order, and
// the job's other metrics. The names belong to `result`.
std::vector<NamedValue> values_of(const EpochResult& result);
// The same for an epoch that is not over: its means so far.
std::vector<NamedValue> values_of(const ProgressReport& report);

// attend_job() feeds it with views of the job; several changes may lie between two of them.
// Prints the changes of one job. Threads: one. `out` and `clock` must outlive it.
class Follower {
 public:
  // `redraw` and `width` are those of ProgressLine.
  Follower(std::ostream& out, const Clock& clock, bool redraw, int width);

  // Prints the changes of the job since the last call. Each epoch that has ended gets one line with
  // its results, also if several have ended since the last call. Epochs that ended before the first
  // call get none, except the last one of a job that has ended. The view's version must not be
  // older than that of the last call. After a recovery the epoch may begin again.
  void show(const JobView& job);
  // Ends a line that is being redrawn, so that something else can be printed.
  void break_line() { line_.break_line(); }

 private:
  // Prints the state on a line of its own, with the reason or the workers.
  void show_state(const JobCondition& now);
  // The times are those of the training, whenever the report arrives.
  void show_ended(const EpochResult& ended, const ProgressReport& last);
  // Draws the line of the epoch that runs, if its results are known.
  void show_running(const ProgressReport& last);

  std::ostream& out_;
  const Clock& clock_;
  const bool redraw_;
  ProgressLine line_;
  std::optional<JobState> state_;
  std::string reason_;
  bool begun_ = false;
  uint32_t ended_ = 0;    // the last epoch that is printed, or that ended before
  uint32_t running_ = 0;  // the epoch that is being shown; 0: none
  uint64_t step_ = 0;     // of the job, when it was shown last
};

}  // namespace leat
