// Reports the progress of a job's training to the table of jobs and to the job's log.
#pragma once

#include <functional>
#include <string>

#include "daemon/jobs/progress.h"
#include "daemon/spec/job.h"
#include "daemon/training/train_observer.h"
#include "devices/base/clock.h"

namespace leat {

// An event for the table of jobs is a ProgressReport, with the numbers so far; a line of the log is
// for people. The first step is reported at once, since it ends the recovery of a job.
//
// Threads: the one that trains.
class TrainingReporter final : public TrainObserver {
 public:
  using Report = std::function<void(const ProgressReport&)>;
  using Line = std::function<void(std::string)>;

  // Reports come at most 4 times a second, and at the end of each epoch, validation and checkpoint.
  // `rows`: of the data.
  TrainingReporter(const Job& job, int64_t rows, const Clock& clock, Report report, Line line);

  void resumed(int64_t step, TrainSource from) override;
  void started(int64_t first_step, int64_t steps) override;
  void epoch_recalled(const EpochResult& result) override;
  void recalled(int64_t epoch, int64_t epochs, const StepResult& last) override;
  void epoch_begun(int64_t epoch, int64_t epochs, int64_t steps_of_epoch,
                   int64_t first_step) override;
  void stepped(int64_t step_of_epoch, const StepResult& result) override;
  void validated(const ValidationResult& result) override;
  void waited_for_input(const std::vector<NamedNumber>& seconds,
                        const std::vector<NamedNumber>& steps_ahead) override;
  void epoch_ended(const EpochResult& result) override;
  void checkpointed(int64_t step, const std::string& path) override;
  void warned(const std::string& message) override;
  void audited(int64_t steps, int64_t pairs, int64_t differences) override;
  void differed(const std::vector<std::string>& wrong, const std::string& message) override;
  void lost_metrics(const MetricsLoss& loss) override;
  void waits(const std::string& for_what) override;
  void noted(const std::string& message) override;

  // Told of each step, with how many are done, and of those that were done before; before the run.
  void on_step(std::function<void(uint64_t)> told) { on_step_ = std::move(told); }
  // Told what the training waits for, and "" when that is over; before the run.
  void on_wait(std::function<void(std::string)> told) { on_wait_ = std::move(told); }
  // Told of the step of each checkpoint; before the run.
  void on_checkpoint(std::function<void(int64_t)> told) { on_checkpoint_ = std::move(told); }
  // The audits of the job's earlier assemblies, as ProgressReport has them; before the run.
  void add_audits(std::vector<NamedNumber> before) {
    audits_before_ = progress_.audits = std::move(before);
  }
  // Told of each worker that an audit found to be wrong; before the run.
  void on_wrong_worker(std::function<void(const std::string&)> told) {
    on_wrong_worker_ = std::move(told);
  }
  // Reports the latest progress at once. Called when the training has ended.
  void report();

 private:
  // Put the numbers of a step or an epoch into the next report.
  void take(const StepResult& result);
  void take(const EpochResult& result);

  const Clock& clock_;
  const Report report_;
  const Line line_;
  std::function<void(uint64_t)> on_step_;
  std::function<void(std::string)> on_wait_;
  std::function<void(int64_t)> on_checkpoint_;
  std::function<void(const std::string&)> on_wrong_worker_;
  std::vector<NamedNumber> audits_before_;
  std::string waits_for_;  // as on_wait_ was told
  // The first worker that a quorum may do without; 0 if the job has no quorum.
  const uint32_t spared_from_;
  ProgressReport progress_;
  Clock::Steady reported_at_;
};

}  // namespace leat
