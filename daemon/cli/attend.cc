#include "daemon/cli/attend.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "daemon/cli/progress.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr auto kWatch = milliseconds(10'000);

// Shows changes of a job in the manner of Keras.
class Follower {
 public:
  Follower() : line_(std::cerr, clock_, stderr_is_terminal(), terminal_width()) {}

  void show(const JobView& job) {
    const JobCondition& now = job.condition;
    if (now.state != state_ || now.reason != reason_) show_state(now);
    show_progress(job.progress.last);
    if (has_ended(now.state)) line_.break_line();
  }
  void break_line() { line_.break_line(); }

 private:
  void show_state(const JobCondition& now) {
    line_.break_line();
    state_ = now.state;
    reason_ = now.reason;
    std::cerr << name_of(now.state);
    if (!now.reason.empty()) std::cerr << ": " << printable(now.reason);
    if (now.state == JobState::running) std::cerr << " on " << join(now.workers, ", ");
    std::cerr << "\n";
  }

  // Steps done when an epoch ends: batches run on across epochs.
  static uint64_t end_of(uint64_t epoch, const ProgressReport& last) {
    if (last.rows_per_epoch > 0 && last.rows_per_step > 0) {
      const uint64_t rows = epoch * last.rows_per_epoch;
      return std::min(last.steps, (rows + last.rows_per_step - 1) / last.rows_per_step);
    }
    return (epoch * last.steps + epochs_of(last) - 1) / epochs_of(last);
  }
  static uint64_t epochs_of(const ProgressReport& last) { return std::max(last.epochs, 1u); }

  void show_progress(const ProgressReport& last) {
    if (last.step == 0 || last.steps == 0) {
      from_start_ = true;
      return;
    }
    if (epoch_ > 0 && last.epochs == 0) return;  // a run that has just begun does not know of them
    const uint64_t step = std::min(last.step, last.steps);
    now_ = {step, clock_.steady()};
    if (seen_ && step < seen_->step) seen_.reset();
    if (epoch_ > 0 && step < end_of(epoch_ - 1, last)) epoch_ = 0;  // it went back and goes again
    if (epoch_ == 0) {
      epoch_ = 1;
      while (!from_start_ && end_of(epoch_, last) < step) ++epoch_;
      begin_epoch(last);
      from_start_ = false;
    }
    for (; end_of(epoch_, last) < step; begin_epoch(last)) finish_epoch(last);
    if (!seen_ || seen_->step != step) seen_ = now_;
    if (closed_) return;
    const uint64_t first = end_of(epoch_ - 1, last);
    line_.update(static_cast<int64_t>(step - first), values(last));
    if (step == last.steps) {
      line_.end_epoch(values(last));
      closed_ = true;
    }
  }

  // When so many steps were done, as if those between two reports had taken equally long. Nothing
  // if that was before the first report: it tells of steps that nobody here has timed.
  std::optional<Clock::Steady> when(uint64_t step) const {
    if (!seen_ || step < seen_->step || now_.step <= seen_->step) return std::nullopt;
    const double part =
        static_cast<double>(step - seen_->step) / static_cast<double>(now_.step - seen_->step);
    const std::chrono::duration<double> passed = now_.at - seen_->at;
    return seen_->at + std::chrono::duration_cast<Clock::Steady::duration>(part * passed);
  }

  void begin_epoch(const ProgressReport& last) {
    const uint64_t first = end_of(epoch_ - 1, last), end = end_of(epoch_, last);
    const auto began = when(first);
    const uint64_t timed_from = began ? first : std::clamp(now_.step, first, end);
    closed_ = false;
    line_.begin_epoch(static_cast<int64_t>(epoch_), static_cast<int64_t>(epochs_of(last)),
                      static_cast<int64_t>(end - first), static_cast<int64_t>(timed_from - first),
                      static_cast<int64_t>(last.samples_per_step), began);
  }

  void finish_epoch(const ProgressReport& last) {
    const uint64_t end = end_of(epoch_, last), steps = end - end_of(epoch_ - 1, last);
    line_.update(static_cast<int64_t>(steps), values(last), when(end));
    line_.end_epoch(values(last));
    ++epoch_;
  }

  std::span<const NamedValue> values(const ProgressReport& last) {
    values_.clear();
    const auto add = [&](std::string_view name, double value) {
      if (!std::isnan(value)) values_.push_back({name, value});
    };
    add("loss", last.loss);
    add("accuracy", last.accuracy);
    add("val_loss", last.val_loss);
    add("val_accuracy", last.val_accuracy);
    return values_;
  }

  RealClock clock_;
  ProgressLine line_;
  std::optional<JobState> state_;
  std::string reason_;
  bool from_start_ = false;  // it was seen before its first step
  struct Seen {
    uint64_t step = 0;
    Clock::Steady at{};
  };
  std::optional<Seen> seen_;  // steps of an earlier report
  Seen now_;                  // of the report that is being shown
  uint64_t epoch_ = 0;        // that is shown, from 1; 0: none yet
  bool closed_ = false;       // its last line is out
  std::vector<NamedValue> values_;
};

void say_how_to_come_back(const JobView& job, const ClusterOptions& options, std::string_view why) {
  std::cerr << "leat: " << why << "; the job goes on.\n"
            << "  come back to it:  " << command_for(options, "show --follow " + job.id) << "\n"
            << "  end it:           " << command_for(options, "cancel " + job.id) << "\n";
}

int finish(const JobView& job, const ClusterOptions& options, Attend attend) {
  if (!options.json) {
    std::cout << outcome_line(job) << "\n" << std::flush;
  } else if (attend == Attend::wait) {
    std::cout << job_json(job) << std::flush;
  }
  if (job.condition.state == JobState::succeeded) {
    std::cerr << "Its files: " << command_for(options, "fetch " + job.id) << "\n";
    return kExitOk;
  }
  std::cerr << "What it said: " << command_for(options, "logs " + job.id) << "\n";
  return kExitFailed;
}

}  // namespace

std::string outcome_line(const JobView& job) {
  const JobCondition& condition = job.condition;
  std::string line = cat(job.id, " ", name_of(condition.state));
  if (condition.state != JobState::succeeded) {
    return condition.reason.empty() ? line : cat(line, ": ", printable(condition.reason));
  }
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, double value) {
    if (!std::isnan(value)) parts.push_back(cat(name, " ", format_value(value)));
  };
  const ProgressReport& last = job.progress.last;
  add("accuracy", std::isnan(last.val_accuracy) ? last.accuracy : last.val_accuracy);
  add("loss", std::isnan(last.val_loss) ? last.loss : last.val_loss);
  const JobResult result = parse_result(condition.result);
  if (!result.weights_sha256.empty()) {
    parts.push_back("weights_sha256 " + printable(result.weights_sha256));
  }
  if (result.shards > 0) {
    parts.push_back(
        cat("shards ", result.shards, ", seed ", result.seed, ", cpu ", printable(result.cpu)));
  }
  return parts.empty() ? line : cat(line, ": ", join(parts, ", "));
}

int attend_job(ClusterConnection& connection, JobView job, const ClusterOptions& options,
               Attend attend) {
  std::optional<Follower> follower;
  if (attend == Attend::follow) follower.emplace();
  for (;;) {
    if (follower) follower->show(job);
    if (attend == Attend::follow && options.json) std::cout << job_json(job) << std::flush;
    if (has_ended(job.condition.state)) return finish(job, options, attend);
    auto next = connection.client().watch(job.id, job.version, connection.left(kWatch));
    while (next.ok() && next->version == job.version && !connection.over()) {
      next = connection.client().watch(job.id, job.version, connection.left(kWatch));
    }
    if (next.ok() && next->version != job.version) {
      job = std::move(next).value();
      continue;
    }
    if (follower) follower->break_line();
    if (connection.interrupt().requested()) {
      say_how_to_come_back(job, options, "detached");
      return connection.interrupt().exit_code();
    }
    if (connection.timed_out()) {
      say_how_to_come_back(
          job, options,
          cat("it is still ", name_of(job.condition.state), " when --timeout is over"));
      return kExitTimeout;
    }
    return connection.report(next.status(), About::name);
  }
}

}  // namespace leat
