#include "daemon/cli/job_events.h"

#include "daemon/base/json_line.h"

namespace leat {
namespace {

JsonLine event_line(std::string_view event, const std::string& job) {
  JsonLine line;
  line.add("event", event).add("job", job);
  return line;
}

// Adds a number that is known, as a training computed it.
void add_known(JsonLine& line, std::string_view name, double value) {
  if (is_known(value)) line.add(name, value);
}

}  // namespace

std::string queued_event(const std::string& job) { return event_line("queued", job).text(); }

std::string started_event(const std::string& job, int64_t step, int64_t steps) {
  return event_line("started", job).add("step", step).add("steps", steps).text();
}

std::string epoch_event(const std::string& job, const EpochResult& result) {
  JsonLine line = event_line("epoch", job);
  line.add("epoch", int64_t{result.epoch}).add("step", result.step);
  add_known(line, "loss", result.loss);
  add_known(line, "accuracy", result.accuracy);
  add_known(line, "val_loss", result.val_loss);
  add_known(line, "val_accuracy", result.val_accuracy);
  add_known(line, "seconds", result.seconds);
  return line.text();
}

std::string validation_event(const std::string& job, int64_t step,
                             const std::vector<std::pair<std::string, double>>& numbers) {
  JsonLine line = event_line("validation", job);
  line.add("step", step);
  for (const auto& [name, value] : numbers) add_known(line, name, value);
  return line.text();
}

std::string checkpoint_event(const std::string& job, int64_t step) {
  return event_line("checkpoint", job).add("step", step).text();
}

std::string recovered_event(const std::string& job, int64_t step, int64_t restarts) {
  return event_line("recovered", job).add("step", step).add("restarts", restarts).text();
}

std::string ended_event(const std::string& job, std::string_view how, int64_t step,
                        const std::string& reason, const std::string& weights_sha256) {
  JsonLine line = event_line(how, job);
  line.add("step", step);
  if (!reason.empty()) line.add("reason", reason);
  if (!weights_sha256.empty()) line.add("weights_sha256", weights_sha256);
  return line.text();
}

std::vector<std::string> JobEvents::take(const JobView& job) {
  std::vector<std::string> lines;
  const JobCondition& now = job.condition;
  const ProgressReport& last = job.progress.last;
  const auto step = static_cast<int64_t>(last.step);
  const bool first = !std::exchange(begun_, true);
  if (first) {
    epoch_ = last.ended.epoch;
    validated_ = last.validated_step;
    checkpoint_ = last.checkpoint_step;
  }
  const bool over = has_ended(now.state);
  if (now.state == JobState::queued && !std::exchange(queued_, true))
    lines.push_back(queued_event(job.id));
  if (now.state == JobState::running && !std::exchange(started_, true)) {
    lines.push_back(started_event(job.id, step, static_cast<int64_t>(last.steps)));
    restarts_ = now.restarts;
  }
  if (started_ && now.state == JobState::running && now.restarts > restarts_) {
    restarts_ = now.restarts;
    lines.push_back(recovered_event(job.id, step, static_cast<int64_t>(restarts_)));
  }
  take_progress(job, lines);
  if (over && !std::exchange(ended_, true)) {
    const std::string_view how = now.state == JobState::succeeded   ? "succeeded"
                                 : now.state == JobState::cancelled ? "cancelled"
                                                                    : "failed";
    lines.push_back(ended_event(job.id, how, step, now.reason, now.result.weights_sha256));
  }
  return lines;
}

// The validation of an epoch comes before the epoch. A job that went back to a checkpoint does
// steps again, which are not told again.
void JobEvents::take_progress(const JobView& job, std::vector<std::string>& lines) {
  const ProgressReport& last = job.progress.last;
  if (last.validated_step > validated_) {
    validated_ = last.validated_step;
    lines.push_back(
        validation_event(job.id, static_cast<int64_t>(validated_),
                         {{"val_loss", last.val_loss}, {"val_accuracy", last.val_accuracy}}));
  }
  for (const EpochResult& ended : job.progress.epochs) {
    if (ended.epoch <= epoch_) continue;
    epoch_ = ended.epoch;
    lines.push_back(epoch_event(job.id, ended));
  }
  if (last.checkpoint_step > checkpoint_) {
    checkpoint_ = last.checkpoint_step;
    lines.push_back(checkpoint_event(job.id, static_cast<int64_t>(checkpoint_)));
  }
}

}  // namespace leat
