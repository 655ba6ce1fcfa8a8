#include "daemon/training/training_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/base/number_text.h"
#include "daemon/base/retry_while_full.h"
#include "daemon/spec/read_recipes.h"
#include "daemon/training/audited_steps.h"
#include "daemon/training/averaged_weights.h"
#include "daemon/training/class_names.h"
#include "daemon/training/export_model.h"
#include "daemon/training/nan_search.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/run_provenance.h"
#include "daemon/training/train_specs.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "ops/formats/weights_hash.h"

namespace leat {

TrainingLoop::TrainingLoop(const TrainingParts& parts, JobPlans& plans, JobVariables& variables,
                           JobCheckpoints& checkpoints, TrainObserver& observer,
                           std::function<bool()> stop)
    : parts_(parts),
      plans_(plans),
      variables_(variables),
      checkpoints_(checkpoints),
      observer_(observer),
      stop_(std::move(stop)),
      progress_(parts.job.global_batch_size, step_numbers(parts.job)),
      watch_(parts.job),
      validation_(parts, plans) {}

// --- The start.

Status TrainingLoop::open(TrainingStart start, const std::function<void()>& forget,
                          PhaseTimes& times) {
  done_ = start.step();
  // The order: the variables exist before the runs that use them, the data of the evaluation is
  // opened before a step costs time, and the folder is changed after all of that has succeeded.
  LEAT_RETURN_IF_ERROR(variables_.make(!start.held, done_));
  forget();
  for (const std::string& note : variables_.notes()) observer_.noted(note);
  LEAT_ASSIGN_OR_RETURN(steps_, start_audited_steps(parts_, plans_, observer_, done_));
  LEAT_RETURN_IF_ERROR(validation_.prepare());
  times.end("runs");
  LEAT_RETURN_IF_ERROR(restore(start));
  times.end("variables");
  Provenance provenance;
  LEAT_RETURN_IF_ERROR(retry_for_room([&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(provenance, open_folder(start));
    return {};
  }));
  LEAT_RETURN_IF_ERROR(open_log(start));
  checkpointer_ = std::make_unique<Checkpointer>(parts_, plans_, checkpoints_, log_->metrics(),
                                                 observer_, std::move(provenance));
  observer_.resumed(done_, start.source());
  times.end("folder");
  return {};
}

Status TrainingLoop::restore(const TrainingStart& start) {
  if (start.held) {
    LEAT_RETURN_IF_ERROR(variables_.copy(*start.held).while_doing("restoring what workers held"));
    observer_.noted(cat("went on at step ", done_, " from the memory of ", start.held->holder));
  } else if (start.checkpoint) {
    const Checkpoint& from = *start.checkpoint;
    LEAT_RETURN_IF_ERROR(
        variables_.write(from.variables, Restore::everything, static_cast<uint64_t>(done_))
            .while_doing("restoring the checkpoint"));
    if (from.manifest.graph != parts_.input.graph_sha256)
      observer_.warned(cat(parts_.job.model.graph, " is not the graph that the checkpoint of step ",
                           done_, " was written with"));
  }
  return {};
}

// Makes the run's folder with its job file and its graph, and opens the log of metrics.
Result<Provenance> TrainingLoop::open_folder(const TrainingStart& start) {
  if (!start.held) LEAT_RETURN_IF_ERROR(set_aside_refused(parts_, checkpoints_, observer_));
  const std::string& folder = parts_.options.folder;
  Files& files = parts_.files;
  LEAT_RETURN_IF_ERROR(files.make_directories(folder));
  LEAT_RETURN_IF_ERROR(files.make_directories(checkpoints_.folder()));
  LEAT_ASSIGN_OR_RETURN(
      const std::string job_sha256,
      keep_run_job(files, folder, parts_.job, parts_.input.model.data, parts_.options.resume));
  LEAT_RETURN_IF_ERROR(keep_class_names(files, folder, parts_.input.train.classes));
  LEAT_ASSIGN_OR_RETURN(log_, StepLog::open(parts_, done_, checkpoints_.metrics()));
  return keep_provenance(parts_, checkpoints_, job_sha256);
}

// Brings the log to step done_, and reports the rows that it has lost.
Status TrainingLoop::open_log(const TrainingStart& start) {
  MetricsLog& metrics = log_->metrics();
  if (start.held) LEAT_RETURN_IF_ERROR(log_->add_held(*start.held));
  metrics.expect_rows_until(done_);
  LEAT_RETURN_IF_ERROR(recall_epochs());
  if (done_ > 0) LEAT_RETURN_IF_ERROR(set_rate());
  const std::string lost = metrics.loss().text();
  if (lost.empty()) return {};
  observer_.warned(cat("metrics.jsonl: ", lost));
  observer_.lost_metrics(metrics.loss());
  return {};
}

// --- Epochs.

Result<TrainOutcome> TrainingLoop::run() {
  observer_.started(done_, parts_.length.steps);
  checkpoints_.start();
  TrainOutcome outcome;
  Ending ending = Ending::none;
  // The log tells how far the training had come, evaluations included.
  while (log_->has_ended(progress_.epoch, done_)) ++progress_.epoch;
  if (done_ > 0) LEAT_RETURN_IF_ERROR(log_->recall(done_, progress_, observer_));
  const auto goes_on = [&] {
    return progress_.epoch <= parts_.length.epochs && ending == Ending::none && !watch_.stops();
  };
  for (; goes_on(); ++progress_.epoch) {
    LEAT_ASSIGN_OR_RETURN(ending, train_epoch(outcome));
  }
  if (watch_.stops()) observer_.noted(watch_.reason());
  if (ending == Ending::none && validation_.exists() && !outcome.validation) {
    LEAT_ASSIGN_OR_RETURN(ending, evaluate(outcome));  // all epochs had ended before
  }
  if (ending == Ending::aborted) return end_aborted();
  if (ending == Ending::yields) return yield();
  outcome.interrupted = ending == Ending::stopped;
  return finish(std::move(outcome));
}

// An epoch whose training is stopped does not end: the training that continues ends it.
Result<TrainingLoop::Ending> TrainingLoop::train_epoch(TrainOutcome& outcome) {
  const TrainingLength& length = parts_.length;
  progress_.epoch_begin = length.until_epoch(progress_.epoch - 1);
  const int64_t epoch_end = length.end_of(progress_.epoch);
  observer_.epoch_begun(progress_.epoch, length.epochs, epoch_end - progress_.epoch_begin,
                        done_ - progress_.epoch_begin);
  while (done_ < epoch_end) {
    // A training that continues may begin where the one before it had still to evaluate.
    LEAT_ASSIGN_OR_RETURN(const Ending due, evaluate_if_due(outcome));
    if (due != Ending::none) return due;
    LEAT_RETURN_IF_ERROR(train_to(std::min(epoch_end, validation_.next(done_))));
    if (stepping_ == Stepping::aborted) return Ending::aborted;
    // Read before the checkpoint, which takes time: a stop that comes meanwhile ends the next
    // round.
    const bool stopped = stop_();
    LEAT_RETURN_IF_ERROR(checkpointer_->take_if_due(done_));
    if (is_to_yield() && done_ < epoch_end) return Ending::yields;
    if (stopped) return Ending::stopped;
  }
  outcome.validation.reset();
  if (validation_.exists()) {
    LEAT_ASSIGN_OR_RETURN(const Ending ending, evaluate(outcome));
    if (ending != Ending::none) return ending;
  }
  const EpochResult result = progress_.end_epoch(done_, outcome.validation);
  if (outcome.validation && !outcome.validation->confusion.empty()) {
    const auto& confusion = outcome.validation->confusion;
    LEAT_RETURN_IF_ERROR(retry_for_room(
        [&] { return write_confusion(parts_.files, parts_.options.folder, result, confusion); }));
  }
  LEAT_RETURN_IF_ERROR(watch(result));
  LEAT_ASSIGN_OR_RETURN(const bool cut, log_->add(result));
  tell_input_waits();
  observer_.epoch_ended(result);
  if (cut) LEAT_RETURN_IF_ERROR(cut_rate());
  return Ending::none;
}

Result<TrainingLoop::Ending> TrainingLoop::evaluate_if_due(TrainOutcome& outcome) {
  if (!validation_.is_due(done_) || log_->metrics().validated() == done_) return Ending::none;
  return evaluate(outcome);
}

// Puts the result into `outcome`. A quorum may have trained without some of its hosts, but it
// evaluates on all: it then yields, and the training that continues evaluates.
Result<TrainingLoop::Ending> TrainingLoop::evaluate(TrainOutcome& outcome) {
  const bool on_cluster = static_cast<bool>(parts_.options.yields);
  if (lost_some_ && on_cluster) return Ending::yields;
  auto evaluation = validation_.evaluate(done_, [this] { return may_yield(); });
  const bool spares = parts_.rules.drops_rows() && on_cluster;
  if (spares && evaluation.status().code() == Code::unavailable) {
    observer_.warned(cat("not evaluated: ", evaluation.status().message()));
    return Ending::yields;
  }
  LEAT_RETURN_IF_ERROR(evaluation.status());
  if (!*evaluation) return Ending::yields;
  outcome.validation = (*evaluation)->first;
  if (!parts_.job.has_validation_rows() || log_->metrics().validated() == done_)
    return Ending::none;
  LEAT_ASSIGN_OR_RETURN(const bool cut, log_->add(**evaluation));
  observer_.validated(**evaluation);
  if (cut) LEAT_RETURN_IF_ERROR(cut_rate());
  return Ending::none;
}

// --- Steps.

// Trains up to step `fence`, or less far if the training is to stop or to yield, or a checkpoint is
// due that hosts cannot copy in passing. All hosts have then done the same steps, unless they were
// aborted.
Status TrainingLoop::train_to(int64_t fence) {
  progress_.begin_training();
  checkpointer_->begin_steps(done_);
  int64_t allowed = done_;
  Moment stop_due;
  while (done_ < fence) {
    LEAT_RETURN_IF_ERROR(checkpointer_->collect(false));
    LEAT_RETURN_IF_ERROR(checkpointer_->take_if_passed(done_, *steps_));
    if (parts_.asked_to_yield() && log_->metrics().is_behind())
      LEAT_RETURN_IF_ERROR(log_->metrics().flush());
    // An overdue checkpoint moves the fence to the first step that is not allowed yet.
    if (checkpointer_->hurries()) fence = std::max(allowed, done_ + 1);
    LEAT_ASSIGN_OR_RETURN(allowed, allow(allowed, fence, stop_due));
    if (done_ == allowed) break;
    LEAT_RETURN_IF_ERROR(wait_for_step(stop_due));
    for (const std::string& loss : steps_->take_losses()) {
      observer_.warned(loss);
      lost_some_ = true;
    }
    if (stepping_ == Stepping::aborted) return log_->metrics().flush();
    const int64_t finished = steps_->finished();
    while (done_ < finished) LEAT_RETURN_IF_ERROR(consume(done_++));
  }
  LEAT_RETURN_IF_ERROR(steps_->drain(last_moment()));
  progress_.end_training();
  return checkpointer_->take_if_passed(done_, *steps_);
}

// Allows steps up to `fence` as far as possible, or takes them back if the training is to yield.
// `allowed`: the limit so far. Returns the new limit.
Result<int64_t> TrainingLoop::allow(int64_t allowed, int64_t fence, Moment& stop_due) {
  if (is_to_yield()) {
    const bool holds = allowed > done_ && stepping_ == Stepping::allowed;
    if (!holds) return allowed;
    stepping_ = Stepping::held;
    return steps_->hold();
  }
  if (!stop_()) {
    allowed = std::min(checkpointer_->announce(fence, *steps_), done_ + steps_->window());
    steps_->extend(allowed);
  } else if (!stop_due && parts_.options.stop_grace.count() > 0) {
    stop_due = std::chrono::steady_clock::now() + parts_.options.stop_grace;
  }
  return allowed;
}

// Waits for the step after those that are done, however long it takes, but not beyond `stop_due`,
// which is set when the training is to stop: the run is then aborted.
Status TrainingLoop::wait_for_step(Moment& stop_due) {
  const TrainOptions& options = parts_.options;
  const auto begun = std::chrono::steady_clock::now();
  auto warned = begun;
  for (auto now = begun;; now = std::chrono::steady_clock::now()) {
    if (stepping_ == Stepping::allowed && is_to_yield()) return {};
    if (!stop_due && options.stop_grace.count() > 0 && stop_()) stop_due = now + options.stop_grace;
    if (stop_due && now >= *stop_due) {
      stepping_ = Stepping::aborted;
      steps_->abort(cancelled("the job is to stop"));
      return {};
    }
    const auto until = std::min(now + kStopPoll, warned + options.slow_step);
    if (steps_->settled(done_, std::min(stop_due.value_or(until), until))) break;
    if (now - warned < options.slow_step) continue;
    warned = now;
    // The deadline is now, so this only asks for the reasons of the wait.
    const Status why = steps_->wait(done_, now);
    if (steps_->settled(done_, now)) break;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begun).count();
    observer_.warned(cat("step ", done_ + 1, " takes ", seconds, " s so far: ", why.message()));
  }
  return steps_->wait(done_, std::chrono::steady_clock::now());
}

Status TrainingLoop::consume(int64_t step) {
  const StepValues values = log_->values(*steps_, step);
  progress_.add(values.loss, values.accuracy, values.more, values.skipped);
  progress_.count_trained(values.dropped_chunks);
  const std::optional<double> rate = progress_.rate_if_due();
  if (rate) tell_input_waits();
  LEAT_RETURN_IF_ERROR(log_->add(step, values.fetched, rate));
  progress_.last.skipped_steps = log_->metrics().skipped_steps();
  observer_.stepped(step + 1 - progress_.epoch_begin, progress_.last);
  if (values.skipped) note_skipped(step, values.loss);
  if (parts_.job.on_nan != Job::OnNan::fail) return {};
  for (const double value : values.fetched) {
    if (!std::isfinite(value)) return not_finite(step, value);
    if (!parts_.job.program) break;  // the others follow from the loss
  }
  return {};
}

void TrainingLoop::tell_input_waits() {
  std::map<std::string, InputNumbers> sums;
  steps_->add_input(sums);
  std::vector<NamedNumber> seconds, steps_ahead;
  for (const HostHandle* host : parts_.hosts.hosts()) {
    const auto found = sums.find(host->task());
    if (found == sums.end()) continue;
    seconds.push_back({host->name(), found->second.wait_seconds});
    steps_ahead.push_back({host->name(), static_cast<double>(found->second.steps_ahead)});
  }
  observer_.waited_for_input(seconds, steps_ahead);
}

// Warns of the first skipped step, and then ever more rarely: when their number is a power of 10.
void TrainingLoop::note_skipped(int64_t step, double loss) {
  const int64_t skipped = log_->metrics().skipped_steps();
  int64_t power = 1;
  while (power < skipped) power *= 10;
  if (power != skipped) return;
  const std::string why = std::isfinite(loss) ? "an update of it is not finite"
                                              : cat("its loss is ", name_of_number(loss));
  observer_.warned(cat("step ", step + 1, " was skipped: ", why, "; ", counted(skipped, "step"),
                       " skipped so far"));
}

Status TrainingLoop::not_finite(int64_t step, double loss) {
  LEAT_RETURN_IF_ERROR(log_->metrics().flush());
  LEAT_RETURN_IF_ERROR(checkpointer_->collect(true).while_doing(
      cat("the loss of step ", step + 1, " is ", name_of_number(loss))));
  return NanSearch(parts_, plans_, variables_, checkpoints_.folder(), steps_).failure(step, loss);
}

// --- The end.

// A training does not yield where it would have to wait for room on the disk, unless its hosts are
// held already.
bool TrainingLoop::may_yield() const {
  if (stepping_ == Stepping::held) return true;
  if (!parts_.asked_to_yield()) return false;
  return !(checkpointer_->lacks_room() && parts_.saves_to_yield()) && !log_->metrics().is_behind();
}

bool TrainingLoop::is_to_yield() const { return done_ < parts_.length.steps && may_yield(); }

// Tries again for ten minutes while the disk is full: time for a person to make room.
Status TrainingLoop::retry_for_room(const std::function<Status()>& attempt) {
  const auto told = [&](const Status& full) {
    const std::string text = cat(kWaitsForRoom, full.message());
    observer_.warned(text);
    observer_.waits(text);
  };
  const Status status = retry_while_full(attempt, stop_, told);
  observer_.waits("");
  return status;
}

// REQUIRES: all hosts have done the same steps, and do no more.
Result<TrainOutcome> TrainingLoop::yield() {
  bool saves = false;  // the request may change while the hosts wait
  const auto leave = [&]() -> Status {
    saves = parts_.saves_to_yield();
    if (saves && done_ > 0) LEAT_RETURN_IF_ERROR(checkpointer_->take_last(done_));
    return log_->metrics().sync();
  };
  const Status left = retry_for_room(leave);
  if (left.code() != Code::resource_exhausted) LEAT_RETURN_IF_ERROR(left);
  if (!left.ok()) observer_.warned(cat("step ", done_, " is not saved: ", left.message()));
  TrainOutcome outcome;
  outcome.yielded = true;
  outcome.saved = left.ok() && saves;
  outcome.steps = done_;
  outcome.checkpoint = checkpoints_.last_path();
  return outcome;
}

// The hosts were aborted in the middle of different steps: only the checkpoints are left.
Result<TrainOutcome> TrainingLoop::end_aborted() {
  LEAT_RETURN_IF_ERROR(checkpointer_->collect(true));
  TrainOutcome outcome;
  outcome.interrupted = true;
  outcome.steps = done_;
  outcome.checkpoint = checkpoints_.last_path();
  return outcome;
}

Result<TrainOutcome> TrainingLoop::finish(TrainOutcome outcome) {
  outcome.samples_per_second = progress_.samples_per_second();
  outcome.dropped_rows =
      progress_.dropped_chunks() * parts_.job.global_batch_size / parts_.job.shards;
  if (parts_.rules.drops_rows()) observer_.noted(quorum_note(parts_.job, outcome.dropped_rows));
  const auto leave = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(checkpointer_->take_last(done_));
    // An earlier checkpoint's copies are not needed any more, and exports take memory.
    for (HostHandle* host : parts_.hosts.hosts()) host->drop_snapshot();
    outcome.steps = done_;
    outcome.skipped_steps = log_->metrics().skipped_steps();
    outcome.lost_metrics = log_->metrics().loss();
    outcome.checkpoint = checkpoints_.last_path();
    if (parts_.options.profile) outcome.profile = steps_->profile();
    LEAT_RETURN_IF_ERROR(write_weights(outcome));
    return log_->metrics().sync();
  };
  LEAT_RETURN_IF_ERROR(retry_for_room(leave));
  return outcome;
}

// With an average, the weights of the job are the averaged ones; the others are in a file beside.
Status TrainingLoop::write_raw_weights() {
  SafeTensors content;
  LEAT_ASSIGN_OR_RETURN(content.tensors, variables_.lend());
  std::erase_if(content.tensors,
                [](const auto& named) { return named.first.starts_with(kOptimizerPrefix); });
  content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(done_)}};
  return write_safetensors(parts_.files, parts_.options.folder + "/raw_weights.safetensors",
                           content);
}

// Hashes the weights, and writes them into the folder unless the training was interrupted.
Status TrainingLoop::write_weights(TrainOutcome& outcome) {
  LEAT_ASSIGN_OR_RETURN(const SafeTensors content, weights());
  outcome.weights_sha256 = weights_sha256(content.tensors);
  outcome.best = watch_.best();
  if (outcome.interrupted) return {};
  if (has_average()) LEAT_RETURN_IF_ERROR(write_raw_weights());
  LEAT_RETURN_IF_ERROR(write_exports(parts_.files, parts_.options.folder, parts_.job,
                                     parts_.input.model, content.tensors, done_));
  return write_safetensors(parts_.files, parts_.options.folder + "/weights.safetensors", content);
}

Result<SafeTensors> TrainingLoop::weights() {
  SafeTensors content;
  LEAT_ASSIGN_OR_RETURN(content.tensors, variables_.lend());
  if (has_average()) content.tensors = averaged_weights(content.tensors, parts_.job.optimizer.ema);
  // The optimizer's state is in the checkpoints, and no part of the weights.
  std::erase_if(content.tensors,
                [](const auto& named) { return named.first.starts_with(kOptimizerPrefix); });
  content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(done_)}};
  if (parts_.input.trains_parameters(parts_.job))
    content.metadata.emplace(kTrainsKey, kTrainsParameters);
  return content;
}

Status TrainingLoop::watch(const EpochResult& result) {
  if (!watch_.take(result)) return {};
  LEAT_ASSIGN_OR_RETURN(SafeTensors content, weights());
  content.metadata.emplace("leat.epoch", std::to_string(result.epoch));
  const std::string path = cat(parts_.options.folder, "/", kBestWeights);
  return retry_for_room([&] { return write_safetensors(parts_.files, path, content); });
}

Status TrainingLoop::cut_rate() {
  const Plateau& plateau = log_->plateau();
  observer_.noted(cat("the learning rate is ", number_text(plateau.learning_rate()), " from step ",
                      done_ + 1, ": ", plateau.metric(), " got no better"));
  return set_rate();
}

// The variable follows from the log alone: what a checkpoint or a host has of it is replaced.
Status TrainingLoop::set_rate() {
  if (!log_->plateau().exists()) return {};
  const Variables cut{{std::string(kPlateauCut), Tensor::scalar<double>(log_->plateau().cut())}};
  return variables_.write(cut, Restore::some, static_cast<uint64_t>(done_))
      .while_doing("changing the learning rate");
}

Status TrainingLoop::recall_epochs() {
  if (done_ == 0 || !watch_.watches()) return {};
  LEAT_ASSIGN_OR_RETURN(const auto epochs, read_epochs(parts_.files, parts_.metrics_path(), done_));
  for (const EpochResult& each : epochs) watch_.take(each);
  return {};
}

}  // namespace leat
