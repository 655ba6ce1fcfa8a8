#include "daemon/cli/attend.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "daemon/cli/event_program.h"
#include "daemon/cli/follower.h"
#include "daemon/cli/job_events.h"
#include "daemon/status/status_json.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

// How long the master holds a call of watch() that has nothing to tell.
constexpr auto kWatch = milliseconds(10'000);

// Prints commands to follow the job again and to cancel it.
void say_how_to_come_back(const JobView& job, const ClusterOptions& options, std::string_view why) {
  std::cerr << "leat: " << why << "; the job goes on.\n"
            << "  come back to it:  " << command_for(options, "show --follow " + job.id) << "\n"
            << "  end it:           " << command_for(options, "cancel " + job.id) << "\n";
}

// Prints the outcome of a job that has ended and returns the exit code. The hints go to stderr, so
// that stdout has only data.
int finish(const JobView& job, const ClusterOptions& options, Attend attend) {
  if (!options.json) {
    std::cout << outcome_line(job) << "\n" << std::flush;
  } else if (attend == Attend::wait) {
    // With Attend::follow, attend_job() has printed this state of the job already.
    std::cout << job_json(job) << std::flush;
  }
  if (job.condition.state == JobState::succeeded) {
    std::cerr << "Its files: " << command_for(options, "fetch " + job.id) << "\n";
    return kExitOk;
  }
  std::cerr << "Its log: " << command_for(options, "logs " + job.id) << "\n";
  return kExitFailed;
}

}  // namespace

std::string outcome_line(const JobView& job) {
  const JobCondition& condition = job.condition;
  std::string line = cat(job.id, " ", name_of(condition.state));
  // A job that did not succeed has no results worth a line, but a reason.
  if (condition.state != JobState::succeeded) {
    return condition.reason.empty() ? line : cat(line, ": ", printable(condition.reason));
  }
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, double value) {
    if (is_known(value)) parts.push_back(cat(name, " ", format_value(value)));
  };
  const ProgressReport& last = job.progress.last;
  // The numbers of the validation count more than those of the training.
  add("accuracy", is_known(last.val_accuracy) ? last.val_accuracy : last.accuracy);
  add("loss", is_known(last.val_loss) ? last.val_loss : last.loss);
  for (const NamedNumber& each : last.ended.more) add(printable(each.name), each.value);
  const JobResult& result = condition.result;
  if (!result.weights_sha256.empty()) {
    parts.push_back("weights_sha256 " + printable(result.weights_sha256));
  }
  // The hash depends on these facts, so it is never shown without them.
  if (result.shards > 0) {
    parts.push_back(cat("shards ", result.shards, ", seed ", result.seed,
                        printable(precision_clause(result.precision)), ", cpu ",
                        printable(result.cpu)));
  }
  if (result.depends_on_timing) parts.push_back("depends on timing");
  if (last.steps_skipped > 0) {
    parts.push_back(cat(counted(static_cast<int64_t>(last.steps_skipped), "step"), " skipped"));
  }
  if (const std::string lost = lost_metrics(last); !lost.empty()) parts.push_back(lost);
  return parts.empty() ? line : cat(line, ": ", join(parts, ", "));
}

namespace {

int attend_until_end(ClusterConnection& connection, JobView job, const ClusterOptions& options,
                     Attend attend, EventProgram* program) {
  const RealClock clock;
  JobEvents events;
  std::optional<Follower> follower;
  if (attend == Attend::follow)
    follower.emplace(std::cerr, clock, stderr_is_terminal(), terminal_width());
  for (;;) {
    if (follower) follower->show(job);
    if (program != nullptr) {
      for (std::string& line : events.take(job)) program->send(std::move(line));
    }
    if (attend == Attend::follow && options.json) std::cout << job_json(job) << std::flush;
    if (has_ended(job.condition.state)) return finish(job, options, attend);
    auto next = connection.client().watch(job.id, job.version, connection.left(kWatch));
    // The call also returns when its time is over, with the same version: the job has not changed.
    while (next.ok() && next->version == job.version && !connection.over()) {
      next = connection.client().watch(job.id, job.version, connection.left(kWatch));
    }
    if (next.ok() && next->version != job.version) {
      job = std::move(next).value();
      continue;
    }
    // The wait is over without a change: Ctrl-C, the timeout, or an error. The first two also make
    // the call fail, so they are looked at before its error.
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

}  // namespace

int attend_job(ClusterConnection& connection, JobView job, const ClusterOptions& options,
               Attend attend, EventProgram* program) {
  const int code = attend_until_end(connection, std::move(job), options, attend, program);
  print_end(program);
  return code;
}

}  // namespace leat
