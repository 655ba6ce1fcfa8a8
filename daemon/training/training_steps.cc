#include "daemon/training/training_steps.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

// One run of all hosts. Its steps have the numbers of the job's steps, so the calls go through.
class StepsTogether final : public TrainingSteps {
 public:
  StepsTogether(std::unique_ptr<PlanRun> run, int64_t first_step)
      : run_(std::move(run)), first_(first_step), limit_(first_step) {}

  int64_t window() const override { return static_cast<int64_t>(run_->window()); }
  void extend(int64_t limit) override {
    // hold() is the only way to take steps back.
    limit_ = std::max(limit_, limit);
    run_->extend(static_cast<uint64_t>(limit_));
  }
  Result<int64_t> hold() override {
    LEAT_ASSIGN_OR_RETURN(const uint64_t limit, run_->hold());
    return limit_ = static_cast<int64_t>(limit);
  }
  bool snapshot_in_passing(int64_t step,
                           const std::map<std::string, std::vector<std::string>>& names) override {
    return run_->snapshot_in_passing(static_cast<uint64_t>(step), names);
  }
  bool finished_everywhere(int64_t step) const override {
    return run_->finished_everywhere(static_cast<uint64_t>(step));
  }
  Status wait(int64_t step, Deadline deadline) override {
    return run_->wait(static_cast<uint64_t>(step), deadline);
  }
  bool settled(int64_t step, Deadline until) override {
    return run_->settled(static_cast<uint64_t>(step), until);
  }
  Status drain(Deadline deadline) override {
    if (limit_ == first_) return {};
    return run_->wait(static_cast<uint64_t>(limit_ - 1), deadline, true);
  }
  int64_t finished() override { return static_cast<int64_t>(run_->finished()); }
  double fetched_scalar(uint32_t i, int64_t step) override {
    return run_->fetched_scalar(i, static_cast<uint64_t>(step));
  }
  void abort(const Status& cause) override { run_->abort(cause); }
  void add_input(std::map<std::string, InputNumbers>& sums) const override {
    run_->add_input(sums);
  }
  std::string profile() override { return run_->profile(); }

 private:
  const std::unique_ptr<PlanRun> run_;
  const int64_t first_;
  int64_t limit_;
};

// How often a wait looks at the replicas.
constexpr auto kReplicasPoll = std::chrono::milliseconds(50);
// More steps than a replica can ever do.
constexpr int64_t kEndless = int64_t{1} << 50;

// The closing run has the steps of the job. The replicas' runs only feed it, each at its own pace;
// a lost one is noticed by a look at their timelines.
class StepsOfQuorum final : public TrainingSteps {
 public:
  StepsOfQuorum(std::unique_ptr<PlanRun> closing, std::vector<std::unique_ptr<PlanRun>> replicas,
                size_t needed, int64_t first_step)
      : closing_(std::move(closing), first_step),
        replicas_(std::move(replicas)),
        needed_(needed),
        lost_(replicas_.size(), false) {
    // A replica waits for its next step number in the graph itself, so its run needs no limit.
    for (auto& run : replicas_) run->extend(static_cast<uint64_t>(first_step + kEndless));
  }

  int64_t window() const override { return closing_.window(); }
  void extend(int64_t limit) override { closing_.extend(limit); }
  Result<int64_t> hold() override { return closing_.hold(); }
  Status wait(int64_t step, Deadline deadline) override;
  bool settled(int64_t step, Deadline until) override;
  Status drain(Deadline deadline) override { return closing_.drain(deadline); }
  int64_t finished() override { return closing_.finished(); }
  double fetched_scalar(uint32_t i, int64_t step) override {
    return closing_.fetched_scalar(i, step);
  }
  std::vector<std::string> take_losses() override { return std::exchange(losses_, {}); }
  void abort(const Status& cause) override {
    closing_.abort(cause);
    for (auto& run : replicas_) run->abort(cause);
  }
  void add_input(std::map<std::string, InputNumbers>& sums) const override {
    for (const auto& run : replicas_) run->add_input(sums);
  }
  std::string profile() override { return closing_.profile(); }

 private:
  Status failure();

  StepsTogether closing_;
  const std::vector<std::unique_ptr<PlanRun>> replicas_;
  const size_t needed_;
  std::vector<bool> lost_;           // by replica
  std::vector<std::string> losses_;  // not yet taken
};

// The first failure among the partitions of a run; ok while it runs.
Status status_of(PlanRun& run) {
  Status status;
  for (size_t p = 0; p < run.partitions() && status.ok(); ++p) status = run.finished_on(p).status();
  return status;
}

// Returns the failure of the replicas if the steps cannot continue without those that failed.
Status StepsOfQuorum::failure() {
  size_t left = replicas_.size();
  Status first;
  for (size_t r = 0; r < replicas_.size(); ++r) {
    const Status status = status_of(*replicas_[r]);
    if (status.ok()) continue;
    --left;
    const bool lost =
        status.code() == Code::unavailable || status.code() == Code::deadline_exceeded;
    // An error of the job itself, such as bad data, would come on every replica.
    if (!lost) return status;
    if (first.ok()) first = status;
    if (lost_[r]) continue;
    lost_[r] = true;
    losses_.push_back(cat("replica ", r, " is lost, steps go on without it: ", status.message()));
  }
  return left < needed_ ? first : Status();
}

bool StepsOfQuorum::settled(int64_t step, Deadline until) {
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    if (closing_.settled(step, std::min(until, now + kReplicasPoll))) return true;
    // wait() returns this failure at once.
    if (!failure().ok()) return true;
    if (now >= until) return false;
  }
}

Status StepsOfQuorum::wait(int64_t step, Deadline deadline) {
  settled(step, deadline);
  const Status failed = failure();
  if (!failed.ok()) abort(failed);
  // settled() has waited already, so this does not block.
  const Status status = closing_.wait(step, std::chrono::steady_clock::now());
  if (status.code() != Code::deadline_exceeded) return status;
  std::vector<std::string> texts{status.message()};
  for (const auto& run : replicas_) texts.push_back(run->waits_for());
  return deadline_exceeded(join(texts, "; "));
}

// Any run rings it when it finishes a step, or fails.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  uint64_t rings = 0;
  Status failure;  // the first

  // Called on the threads of the runs.
  void ring(const Status& status) {
    std::lock_guard lock(mutex);
    ++rings;
    if (failure.ok()) failure = status;
    rung.notify_all();
  }
};

// Each run is a lane with steps of its own. order_ lists the finished ones of all lanes, and step n
// of the job is the n-th of that list.
class StepsApart final : public TrainingSteps {
 public:
  StepsApart(std::vector<std::unique_ptr<PlanRun>> runs, int64_t first_step)
      : first_(first_step), next_(first_step) {
    for (auto& run : runs) {
      share_ = std::min(share_, static_cast<int64_t>(run->window()));
      lanes_.push_back({std::move(run)});
    }
  }

  int64_t window() const override { return share_ * static_cast<int64_t>(lanes_.size()); }
  void extend(int64_t limit) override;
  Result<int64_t> hold() override;
  Status wait(int64_t step, Deadline deadline) override;
  bool settled(int64_t step, Deadline until) override;
  Status drain(Deadline deadline) override;
  int64_t finished() override {
    collect();
    return next_ + static_cast<int64_t>(order_.size());
  }
  double fetched_scalar(uint32_t i, int64_t step) override;
  void abort(const Status& cause) override {
    for (Lane& lane : lanes_) lane.run->abort(cause);
  }
  void add_input(std::map<std::string, InputNumbers>& sums) const override {
    for (const Lane& lane : lanes_) lane.run->add_input(sums);
  }
  std::string profile() override {
    std::string text;
    for (Lane& lane : lanes_) text += lane.run->profile();
    return text;
  }

 private:
  struct Lane {
    std::unique_ptr<PlanRun> run;
    int64_t granted = 0;  // steps that it may do, in all
    int64_t seen = 0;     // steps known to be finished
    int64_t awaited = 0;  // the bell rings when so many are finished
  };
  struct Done {
    size_t lane;
    int64_t step;  // as the lane counts
  };

  void collect();
  void arm();
  std::string waits_for();

  const int64_t first_;
  // The most steps of one run in flight: enough to keep the host of a distant master busy, and few
  // enough that the others do not wait long at the limit for a slow one.
  int64_t share_ = 16;
  std::vector<Lane> lanes_;
  std::deque<Done> order_;  // finished and not yet consumed, in the order that they were seen
  int64_t next_;            // the step that order_ begins with
  int64_t granted_ = 0;     // over all lanes
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
};

void StepsApart::extend(int64_t limit) {
  for (; first_ + granted_ < limit; ++granted_) {
    // Each further step goes to the run that has the fewest in flight, so a slow one gets fewer.
    Lane& least = *std::min_element(lanes_.begin(), lanes_.end(), [](auto& a, auto& b) {
      return a.granted - a.seen < b.granted - b.seen;
    });
    ++least.granted;
  }
  for (Lane& lane : lanes_) lane.run->extend(static_cast<uint64_t>(first_ + lane.granted));
}

// Every run answers with the limit that is left to it, and the grants are counted anew from these.
Result<int64_t> StepsApart::hold() {
  granted_ = 0;
  for (Lane& lane : lanes_) {
    LEAT_ASSIGN_OR_RETURN(const uint64_t limit, lane.run->hold());
    lane.granted = static_cast<int64_t>(limit) - first_;
    granted_ += lane.granted;
  }
  return first_ + granted_;
}

void StepsApart::collect() {
  for (size_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    const int64_t finished = static_cast<int64_t>(lane.run->finished()) - first_;
    // The order among lanes is that of the lanes here; it differs from run to run, as the weights
    // of an asynchronous job do.
    for (; lane.seen < finished; ++lane.seen) order_.push_back({l, first_ + lane.seen});
  }
}

// Makes every run that may step ring the bell when it has done one step more than was seen.
void StepsApart::arm() {
  for (Lane& lane : lanes_) {
    // The bell of this lane is armed already, or the lane has nothing to do.
    if (lane.awaited > lane.seen || lane.granted == lane.seen) continue;
    lane.awaited = lane.seen + 1;
    for (uint32_t p : lane.run->fetching()) {
      lane.run->finished_on(p).when(static_cast<uint64_t>(lane.awaited),
                                    [bell = bell_](const Status& status) { bell->ring(status); });
    }
  }
}

bool StepsApart::settled(int64_t step, Deadline until) {
  while (true) {
    std::unique_lock lock(bell_->mutex);
    const uint64_t rings = bell_->rings;  // read first: a ring during the look then counts
    if (!bell_->failure.ok()) return true;
    lock.unlock();
    if (finished() > step) return true;
    arm();
    lock.lock();
    if (!bell_->rung.wait_until(lock, until, [&] { return bell_->rings != rings; })) return false;
  }
}

// The failure of one run ends the training of all.
Status StepsApart::wait(int64_t step, Deadline deadline) {
  if (!settled(step, deadline)) {
    return deadline_exceeded(cat("no worker finished a step in time: ", waits_for()));
  }
  Status failure;
  {
    std::lock_guard lock(bell_->mutex);
    failure = bell_->failure;
  }
  if (!failure.ok()) abort(failure);
  return failure;
}

Status StepsApart::drain(Deadline deadline) {
  for (Lane& lane : lanes_) {
    if (lane.granted == 0) continue;
    const Status status =
        lane.run->wait(static_cast<uint64_t>(first_ + lane.granted - 1), deadline, true);
    if (status.ok()) continue;
    abort(status);
    return status;
  }
  return {};
}

double StepsApart::fetched_scalar(uint32_t i, int64_t step) {
  // The steps before are consumed, and their fetches may be overwritten.
  for (; next_ < step; ++next_) order_.pop_front();
  const Done& done = order_.front();
  return lanes_[done.lane].run->fetched_scalar(i, static_cast<uint64_t>(done.step));
}

std::string StepsApart::waits_for() {
  std::vector<std::string> texts;
  for (Lane& lane : lanes_) texts.push_back(lane.run->waits_for());
  return join(texts, "; ");
}

}  // namespace

std::unique_ptr<TrainingSteps> steps_together(std::unique_ptr<PlanRun> run, int64_t first_step) {
  return std::make_unique<StepsTogether>(std::move(run), first_step);
}

std::unique_ptr<TrainingSteps> steps_apart(std::vector<std::unique_ptr<PlanRun>> runs,
                                           int64_t first_step) {
  return std::make_unique<StepsApart>(std::move(runs), first_step);
}

std::unique_ptr<TrainingSteps> steps_of_quorum(std::unique_ptr<PlanRun> closing,
                                               std::vector<std::unique_ptr<PlanRun>> replicas,
                                               size_t needed, int64_t first_step) {
  return std::make_unique<StepsOfQuorum>(std::move(closing), std::move(replicas), needed,
                                         first_step);
}

Result<std::unique_ptr<TrainingSteps>> start_steps(
    const TrainingParts& parts, const std::vector<std::shared_ptr<const Plan>>& plans,
    int64_t done) {
  const Job& job = parts.job;
  const StepMode mode = parts.rules.mode;
  std::vector<std::unique_ptr<PlanRun>> runs;
  for (const auto& plan : plans) {
    // Hosts that step by themselves draw random numbers of their own.
    RunOptions options{"train", job.seed + runs.size() * 0x9e3779b97f4a7c15,
                       static_cast<uint64_t>(done), parts.options.profile};
    options.endless = mode == StepMode::quorum && !runs.empty();  // a replica's
    options.trains = true;
    LEAT_ASSIGN_OR_RETURN(auto run, parts.hosts.run(plan, job.name, options));
    runs.push_back(std::move(run));
  }
  // In the order of compile_training(): with a quorum the closing plan comes first.
  if (mode == StepMode::apart) return steps_apart(std::move(runs), done);
  auto first = std::move(runs[0]);
  runs.erase(runs.begin());
  if (mode == StepMode::together) return steps_together(std::move(first), done);
  return steps_of_quorum(std::move(first), std::move(runs), static_cast<size_t>(job.shards), done);
}

}  // namespace leat
