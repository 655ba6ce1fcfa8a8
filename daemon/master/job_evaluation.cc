#include "daemon/master/job_evaluation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/base/number_text.h"
#include "daemon/base/retry_while_full.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/traces/situation.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/run_weights.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// How often the followed job is looked at for a new checkpoint.
constexpr std::chrono::milliseconds kBetweenLooks{250};
// The time that a training which fails may take to finish the checkpoint that it writes.
constexpr std::chrono::milliseconds kAfterEnd{2'000};

// A checkpoint of the followed job.
struct Left {
  int64_t step = 0;
  std::string path;
};

// Ascending.
Result<std::vector<Left>> checkpoints_left(Files& files, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, folder));
  std::vector<Left> out;
  for (const std::string& path : paths) {
    const int64_t step = step_of_checkpoint(path.substr(path.rfind('/') + 1));
    if (step >= 0) out.push_back({step, path});
  }
  std::sort(out.begin(), out.end(), [](const Left& a, const Left& b) { return a.step < b.step; });
  return out;
}

}  // namespace

JobEvaluation::JobEvaluation(const Catalogue& catalogue, Files& files, const Job& job,
                             Folders folders, std::unique_ptr<HostGroup> hosts, Calls calls)
    : catalogue_(catalogue),
      files_(files),
      job_(job),
      folders_(std::move(folders)),
      calls_(std::move(calls)),
      hosts_(std::move(hosts)),
      rows_(files, cat(folders_.own, "/", kEvaluationsFile)) {}

Status JobEvaluation::run() {
  LEAT_RETURN_IF_ERROR(rows_.open());
  begin();
  bool is_last = false;
  while (true) {
    // The job is asked first: no checkpoint comes after its end, so one more look finds all. Only a
    // training that fails may still be about to finish one.
    const auto followed = calls_.followed();
    if (!followed.ok()) {
      return failed_precondition(cat("job '", job_.evaluates,
                                     "', which it evaluates, is gone from ",
                                     "the cluster: ", followed.status().message()));
    }
    const JobState state = followed->condition.state;
    progress_.steps = followed->progress.last.steps;
    report();
    LEAT_RETURN_IF_ERROR(take_new());
    if (calls_.stop()) return cancelled("the evaluation was told to end");
    if (is_last || state == JobState::succeeded) {
      wait("");
      calls_.line(cat("job '", followed->id, "' has ended as ", name_of(state)));
      return {};
    }
    is_last = has_ended(state);
    wait(cat(kWaitsForCheckpoint, followed->id, "', which is ", name_of(state)));
    calls_.rest(is_last ? kAfterEnd : kBetweenLooks);
  }
}

// Goes on behind the rows that are there.
void JobEvaluation::begin() {
  progress_.step = progress_.first_step = static_cast<uint64_t>(rows_.last_step());
  progress_.from = RecoverySource::start;
  if (progress_.step > 0) {
    progress_.from = RecoverySource::checkpoint;
    progress_.validated_step = progress_.step;
    progress_.val_loss = rows_.last("val_loss").value_or(kNoNumber);
    progress_.val_accuracy = rows_.last("val_accuracy").value_or(kNoNumber);
  }
  calls_.line(progress_.step > 0 ? cat("goes on with job '", job_.evaluates,
                                       "' behind its checkpoint of step ", progress_.step)
                                 : cat("evaluates the checkpoints of job '", job_.evaluates, "'"));
}

Status JobEvaluation::take_new() {
  LEAT_ASSIGN_OR_RETURN(const auto left, checkpoints_left(files_, folders_.followed));
  // The training sets a damaged checkpoint aside, and may write that step again.
  std::erase_if(damaged_, [&](int64_t step) {
    return std::none_of(left.begin(), left.end(),
                        [&](const Left& each) { return each.step == step; });
  });
  for (const Left& each : left) {
    if (calls_.stop()) return {};
    if (rows_.has(each.step) || damaged_.contains(each.step)) continue;
    wait("");
    LEAT_RETURN_IF_ERROR(take(each.path, each.step));
  }
  return {};
}

Status JobEvaluation::take(const std::string& path, int64_t step) {
  auto weights = read_weights_of_checkpoint(files_, path);
  if (!weights.ok()) {
    LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(path));
    // A part may be missing, or have other bytes.
    const Code code = weights.status().code();
    const bool damaged = code == Code::invalid_argument || code == Code::failed_precondition;
    if (there && !damaged) return weights.status();
    damaged_.insert(step);
    calls_.line(there ? cat("warning: passes over a checkpoint: ", weights.status().message())
                      : cat("note: job '", job_.evaluates, "' has removed the checkpoint of step ",
                            step, " before its turn"));
    return {};
  }
  LEAT_ASSIGN_OR_RETURN(const ValidationResult result, evaluate(*std::move(weights)));
  LEAT_RETURN_IF_ERROR(write([&] { return rows_.add(result); }));
  std::vector<std::string> texts;
  for (const auto& [name, value] : result.numbers)
    texts.push_back(cat(name, " ", number_text(value)));
  calls_.line(cat("checkpoint of step ", step, ": ", join(texts, ", ")));
  progress_.step = progress_.validated_step = static_cast<uint64_t>(step);
  progress_.val_loss = result.first.loss;
  progress_.val_accuracy = result.first.accuracy.value_or(kNoNumber);
  report();
  return {};
}

Result<ValidationResult> JobEvaluation::evaluate(RunWeights weights) {
  // The rule by which floats are variables is known with the first checkpoint.
  if (!evaluator_) {
    LEAT_ASSIGN_OR_RETURN(evaluator_, RunEvaluator::create(catalogue_, files_, job_,
                                                           weights.every_float, std::move(hosts_)));
    LEAT_RETURN_IF_ERROR(write([&] {
      return keep_run_job(files_, folders_.own, job_, evaluator_->graph_data(), true).status();
    }));
  }
  auto result =
      evaluator_->evaluate(std::move(weights.values), weights.step.value_or(0), calls_.stop);
  if (!result.ok()) return result.status().while_doing(cat("evaluating '", weights.path, "'"));
  return result;
}

// Waits while the disk is full.
Status JobEvaluation::write(const std::function<Status()>& attempt) {
  const Status written = retry_while_full(attempt, calls_.stop, [&](const Status& full) {
    const std::string text = cat(kWaitsForRoom, full.message());
    calls_.line("warning: " + text);
    wait(text);
  });
  wait("");
  // The next assembly writes what there was no room for.
  const bool gave_up = written.code() == Code::resource_exhausted && calls_.stop();
  return gave_up ? cancelled("the evaluation was told to end") : written;
}

void JobEvaluation::report() {
  if (progress_ == reported_) return;
  reported_ = progress_;
  calls_.report(progress_);
}

// The table hears of changes only.
void JobEvaluation::wait(const std::string& for_what) {
  if (for_what != std::exchange(waits_for_, for_what)) calls_.wait(for_what);
}

}  // namespace leat
