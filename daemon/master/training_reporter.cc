#include "daemon/master/training_reporter.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/number_text.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "scheduler/strategies/strategy.h"

namespace leat {
namespace {

// Each report is an event for the table of jobs, so fast steps share one.
constexpr auto kBetweenReports = std::chrono::milliseconds(250);

}  // namespace

TrainingReporter::TrainingReporter(const Job& job, int64_t rows, const Clock& clock, Report report,
                                   Line line)
    : clock_(clock),
      report_(std::move(report)),
      line_(std::move(line)),
      // The servers are on the first workers.
      spared_from_(job.has_quorum() ? static_cast<uint32_t>(job.parameter_server.num_ps) : 0) {
  // These facts hold for the whole run.
  progress_.in_parts = !strategy_of(job).replicates_variables;
  progress_.samples_per_step = static_cast<uint64_t>(job.global_batch_size);
  const int64_t steps = job.steps_per_epoch;
  progress_.rows_per_epoch = static_cast<uint64_t>(steps > 0 ? steps * job.rows_per_step() : rows);
  progress_.rows_per_step = static_cast<uint64_t>(job.rows_per_step());
}

void TrainingReporter::report() {
  reported_at_ = clock_.steady();
  report_(progress_);
}

void TrainingReporter::resumed(int64_t, TrainSource from) {
  progress_.from = recovery_source_named(name_of(from));
}

void TrainingReporter::started(int64_t first_step, int64_t steps) {
  progress_.step = static_cast<uint64_t>(first_step);
  progress_.steps = static_cast<uint64_t>(steps);
  progress_.first_step = progress_.step;
  progress_.spared_from = spared_from_;
  if (progress_.from == RecoverySource::unknown) {
    progress_.from = first_step > 0 ? RecoverySource::checkpoint : RecoverySource::start;
  }
  line_(first_step > 0 ? cat("goes on after step ", first_step, " of ", steps, ", from ",
                             name_of(progress_.from))
                       : cat("trains ", counted(steps, "step")));
  report();
  // Faults of earlier steps, which an earlier master did not get to, are due now.
  if (on_step_ && first_step > 0) on_step_(progress_.step);
}

void TrainingReporter::take(const StepResult& result) {
  progress_.loss = result.mean_loss;
  if (result.mean_accuracy) progress_.accuracy = *result.mean_accuracy;
  progress_.steps_skipped = static_cast<uint64_t>(result.skipped_steps);
}

void TrainingReporter::take(const EpochResult& result) {
  progress_.ended = result;
  progress_.loss = result.loss;
  progress_.accuracy = result.accuracy;
  progress_.val_loss = result.val_loss;
  progress_.val_accuracy = result.val_accuracy;
}

void TrainingReporter::epoch_recalled(const EpochResult& result) {
  take(result);
  report();
}

void TrainingReporter::recalled(int64_t epoch, int64_t epochs, const StepResult& last) {
  // An epoch that was under way when the last assembly ended is shown with what its steps had so
  // far.
  epoch_begun(epoch, epochs, 0, 0);
  take(last);
  report();
}

void TrainingReporter::epoch_begun(int64_t epoch, int64_t epochs, int64_t, int64_t) {
  progress_.epoch = static_cast<uint32_t>(epoch);
  progress_.epochs = static_cast<uint32_t>(epochs);
}

void TrainingReporter::stepped(int64_t, const StepResult& result) {
  ++progress_.step;
  take(result);
  if (on_step_) on_step_(progress_.step);
  // The first step is always reported, because it ends the recovery of a job.
  const bool is_first = progress_.step == progress_.first_step + 1;
  if (is_first || clock_.steady() - reported_at_ >= kBetweenReports) report();
}

void TrainingReporter::epoch_ended(const EpochResult& result) {
  take(result);
  // The line names only the numbers that are known; a job without validation has no others.
  std::string text = cat("epoch ", result.epoch, "/", progress_.epochs, ", step ", result.step);
  std::string_view between = ": ";
  const auto add = [&](std::string_view name, double value) {
    if (is_known(value)) text += cat(std::exchange(between, ", "), name, " ", number_text(value));
  };
  add("loss", result.loss);
  add("accuracy", result.accuracy);
  add("validation loss", result.val_loss);
  add("validation accuracy", result.val_accuracy);
  for (const NamedNumber& each : result.more) add(each.name, each.value);
  line_(cat(text, "; ", number_text(result.seconds), " s"));
  report();
}

void TrainingReporter::validated(const ValidationResult& result) {
  progress_.val_loss = result.first.loss;
  progress_.val_accuracy = result.first.accuracy.value_or(kNoNumber);
  progress_.validated_step = static_cast<uint64_t>(result.step);
  std::vector<std::string> texts;
  for (const auto& [name, value] : result.numbers)
    texts.push_back(cat(name, " ", number_text(value)));
  line_(cat("validation at step ", result.step, ": ", join(texts, ", ")));
  report();
}

void TrainingReporter::waited_for_input(const std::vector<NamedNumber>& seconds,
                                        const std::vector<NamedNumber>& steps_ahead) {
  progress_.input_wait = seconds;
  progress_.steps_ahead = steps_ahead;
}

void TrainingReporter::lost_metrics(const MetricsLoss& loss) {
  progress_.metrics_missing = static_cast<uint64_t>(loss.missing_rows());
  progress_.metrics_changed_until = static_cast<uint64_t>(loss.changed_until);
}

void TrainingReporter::checkpointed(int64_t step, const std::string&) {
  progress_.checkpoint_step = static_cast<uint64_t>(step);
  line_(cat("checkpoint of step ", step));
  report();
  if (on_checkpoint_) on_checkpoint_(step);
}

void TrainingReporter::warned(const std::string& message) { line_("warning: " + message); }

void TrainingReporter::audited(int64_t steps, int64_t pairs, int64_t differences) {
  progress_.audits = {{"steps", static_cast<double>(steps)},
                      {"pairs", static_cast<double>(pairs)},
                      {"differences", static_cast<double>(differences)}};
  for (size_t i = 0; i < std::min(audits_before_.size(), progress_.audits.size()); ++i)
    progress_.audits[i].value += audits_before_[i].value;
}

void TrainingReporter::differed(const std::vector<std::string>& wrong, const std::string& message) {
  line_(message);
  for (const std::string& worker : wrong) {
    if (on_wrong_worker_) on_wrong_worker_(worker);
  }
}

void TrainingReporter::waits(const std::string& for_what) {
  // The training says each time what it waits for, and the table hears of changes only.
  if (for_what == std::exchange(waits_for_, for_what)) return;
  if (on_wait_) on_wait_(for_what);
}

void TrainingReporter::noted(const std::string& message) { line_("note: " + message); }

}  // namespace leat
