#include "daemon/training/audited_steps.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "daemon/training/step_audit.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The steps are those of one inner run after the other: one does the steps up to an audited one,
// the next one does that alone. The caller has consumed all steps below the one that it waits for,
// so the inner run may be replaced there.
class AuditedSteps final : public TrainingSteps {
 public:
  AuditedSteps(const TrainingParts& parts, JobPlans& plans, TrainObserver& observer, int64_t done)
      : parts_(parts),
        plans_(plans),
        observer_(observer),
        audit_(parts, plans, observer),
        limit_(done) {}

  int64_t window() const override { return inner_->window(); }
  void extend(int64_t limit) override {
    limit_ = std::max(limit_, limit);
    inner_->extend(std::min(limit_, end_));
  }
  Result<int64_t> hold() override {
    LEAT_ASSIGN_OR_RETURN(limit_, inner_->hold());
    return limit_;
  }
  Status wait(int64_t step, Deadline deadline) override {
    if (!settled(step, deadline)) return inner_->wait(std::min(step, end_ - 1), deadline);
    return failure_.ok() ? inner_->wait(step, deadline) : failure_;
  }
  bool settled(int64_t step, Deadline until) override {
    if (failure_.ok() && step >= end_ && limit_ > step) failure_ = go_on_at(step);
    if (!failure_.ok()) return true;
    if (!inner_->settled(step, until)) return false;
    if (single_ != nullptr && !verified_) failure_ = verify(step);
    return true;
  }
  Status drain(Deadline deadline) override;
  int64_t finished() override {
    const int64_t finished = inner_->finished();
    return single_ != nullptr && !verified_ ? std::min(finished, end_ - 1) : finished;
  }
  double fetched_scalar(uint32_t i, int64_t step) override {
    return inner_->fetched_scalar(i, step);
  }
  void abort(const Status& cause) override {
    if (inner_) inner_->abort(cause);
  }
  void add_input(std::map<std::string, InputNumbers>& sums) const override {
    for (const auto& [host, numbers] : before_) sums[host].add(numbers);
    if (inner_) inner_->add_input(sums);
  }
  std::string profile() override { return inner_->profile(); }

  // Starts the first inner run, which does no audited step: the variables are not there yet.
  Status start_common(int64_t step);

 private:
  // Replaces the inner run by one whose first step is `step`, the first that is not done.
  Status go_on_at(int64_t step);
  Status start_audited(int64_t step);
  Status verify(int64_t step);

  const TrainingParts& parts_;
  JobPlans& plans_;
  TrainObserver& observer_;
  StepAudit audit_;
  int64_t limit_;                         // as the caller set it
  int64_t end_ = 0;                       // the inner run does the steps below it
  std::unique_ptr<TrainingSteps> inner_;  // null only after a failure
  PlanRun* single_ = nullptr;             // the inner run if it does an audited step, else null
  bool verified_ = false;                 // that step was compared
  int64_t compared_ = -1;                 // the variables were compared after so many steps
  bool told_ = false;                     // the summary
  Status failure_;
  std::map<std::string, InputNumbers> before_;  // as add_input(), of earlier inner runs
};

Status AuditedSteps::go_on_at(int64_t step) {
  LEAT_RETURN_IF_ERROR(inner_->drain(last_moment()));
  inner_->add_input(before_);
  // Only the inner run that goes on reads ahead.
  for (auto& [host, numbers] : before_) numbers.steps_ahead = 0;
  // The memory of this run goes before other runs need some.
  inner_.reset();
  single_ = nullptr;
  LEAT_RETURN_IF_ERROR(audit_.next(step) == step ? start_audited(step) : start_common(step));
  inner_->extend(std::min(limit_, end_));
  return {};
}

Status AuditedSteps::start_common(int64_t step) {
  LEAT_ASSIGN_OR_RETURN(inner_, start_steps(parts_, plans_.training(), step));
  end_ = audit_.next(step);
  return {};
}

Status AuditedSteps::start_audited(int64_t step) {
  LEAT_RETURN_IF_ERROR(audit_.begin(step));
  RunOptions options{"train", parts_.job.seed, static_cast<uint64_t>(step), parts_.options.profile};
  options.trains = true;
  LEAT_ASSIGN_OR_RETURN(auto run, parts_.hosts.run(audit_.training(), parts_.job.name, options));
  single_ = run.get();
  verified_ = false;
  inner_ = steps_together(std::move(run), step);
  end_ = step + 1;
  return {};
}

Status AuditedSteps::verify(int64_t step) {
  LEAT_RETURN_IF_ERROR(inner_->drain(last_moment()));
  verified_ = true;
  compared_ = step + 1;
  return audit_.end(step, *single_);
}

Status AuditedSteps::drain(Deadline deadline) {
  LEAT_RETURN_IF_ERROR(failure_);
  LEAT_RETURN_IF_ERROR(inner_->drain(deadline));
  const int64_t done = finished();
  if (done == parts_.length.steps && !std::exchange(told_, true)) observer_.noted(audit_.summary());
  if (compared_ == done) return {};
  compared_ = done;
  return failure_ = audit_.compare_variables(done);
}

}  // namespace

Result<std::unique_ptr<TrainingSteps>> start_audited_steps(const TrainingParts& parts,
                                                           JobPlans& plans, TrainObserver& observer,
                                                           int64_t done) {
  if (parts.job.audit == 0) return start_steps(parts, plans.training(), done);
  const std::string obstacle = parts.workers < 2 ? "that takes two workers, and the job has one now"
                                                 : parts.options.no_audit;
  if (!obstacle.empty()) {
    observer.warned(cat("no step is audited: ", obstacle));
    return start_steps(parts, plans.training(), done);
  }
  auto steps = std::make_unique<AuditedSteps>(parts, plans, observer, done);
  LEAT_RETURN_IF_ERROR(steps->start_common(done));
  return std::unique_ptr<TrainingSteps>(std::move(steps));
}

}  // namespace leat
