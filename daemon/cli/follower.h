// The changes of a job's state and its epochs, in the manner of Keras, for who follows it.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "daemon/cli/progress.h"
#include "daemon/jobs/events.h"

namespace leat {

// "loss", "accuracy", "val_loss", "val_accuracy": what is known of them.
std::vector<NamedValue> values_of(const EpochResult& result);
// The same of an epoch that is not over: its means so far.
std::vector<NamedValue> values_of(const ProgressReport& report);

// Threads: one. `out` and `clock` must outlive it.
class Follower {
 public:
  // As ProgressLine has them.
  Follower(std::ostream& out, const Clock& clock, bool redraw, int width);

  // Prints what is new of the job. An epoch has its line when it has ended, once, with what it came
  // to, however many ended since the last call; those before the first call have none.
  void show(const JobView& job);
  void break_line() { line_.break_line(); }

 private:
  void show_state(const JobCondition& now);
  void show_ended(const EpochResult& ended, const ProgressReport& last);
  void show_running(const ProgressReport& last);

  std::ostream& out_;
  const Clock& clock_;
  const bool redraw_;
  ProgressLine line_;
  std::optional<JobState> state_;
  std::string reason_;
  bool begun_ = false;
  uint32_t ended_ = 0;    // the last epoch whose line is out, or that had ended before
  uint32_t running_ = 0;  // the epoch that is being shown; 0: none
  uint64_t step_ = 0;     // of the job, when it was shown last
};

}  // namespace leat
