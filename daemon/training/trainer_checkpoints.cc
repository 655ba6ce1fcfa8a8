// The checkpoints of a training: copied at a fence, or by workers that pass a step which they were
// told before; written beside the steps, heard of later.
#include "daemon/checkpoint/check_continues.h"
#include "daemon/training/trainer.h"
#include "devices/base/text.h"

namespace leat {

JobCheckpoints Trainer::checkpoints_of(const Job& job, const TrainOptions& options, Files& files,
                                       const Clock& clock) {
  const Job::Checkpoint& c = job.checkpoint;
  return JobCheckpoints(
      files, clock, c.path.empty() ? options.folder + "/checkpoints" : c.path,
      {c.every_steps, std::chrono::duration<double>(c.every_minutes * 60), c.keep});
}

Status Trainer::check_checkpoint(const Manifest& from) const {
  return check_continues(from, manifest(from.step), total_steps_);
}

Manifest Trainer::manifest(int64_t step) const {
  Manifest manifest;
  manifest.step = step;
  manifest.job = job_.name;
  manifest.graph = graph_sha256_;
  manifest.seed = job_.seed;
  manifest.shards = job_.shards;
  manifest.data = data_order_;
  manifest.every_float = !trains_parameters();
  manifest.strategy = name_of(job_.strategy);
  manifest.workers = workers();
  return manifest;
}

// `taken`: workers have copied it in passing. REQUIRES: none is being written.
Status Trainer::begin_checkpoint(int64_t step, bool taken) {
  CheckpointOrder order;
  order.files = &files_;
  order.folder = checkpoints_.folder();
  order.keep = checkpoints_.keep();
  order.job = job_.name;
  order.shares = share_out(hosts_->hosts(), holds_, variable_bytes_);
  order.taken = taken;
  LEAT_ASSIGN_OR_RETURN(order.manifest, checkpoints_.begin(manifest(step)));
  order.manifest.metrics = metrics_->digest_at(step);
  // The steps that a checkpoint says are done have their metrics.
  order.first = [metrics = metrics_.get()] { return metrics->sync(); };
  LEAT_ASSIGN_OR_RETURN(writing_, CheckpointTask::begin(std::move(order)));
  return {};
}

// What goes wrong costs a checkpoint and not the job: the next one may find room.
Status Trainer::checkpoint(int64_t step, bool taken, TrainObserver& observer) {
  LEAT_RETURN_IF_ERROR(collect_checkpoint(observer, !options_.skip_checkpoints));
  if (writing_) {
    if (writing_->step() != step)
      observer.noted(cat("no checkpoint of step ", step, ": that of step ", writing_->step(),
                         " is still being written"));
    return metrics_->flush();
  }
  const Status begun = begin_checkpoint(step, taken);
  if (!begun.ok()) note_no_checkpoint(step, begun, observer);
  return {};
}

void Trainer::note_no_checkpoint(int64_t step, const Status& why, TrainObserver& observer) {
  observer.warned(cat("no checkpoint of step ", step, ": ", why.message()));
  if (no_room_ || why.code() == Code::resource_exhausted) no_room_ = clock_.steady();
}

// At a fence.
Status Trainer::checkpoint_if_due(TrainObserver& observer) {
  const bool asked = done_ == checkpoints_.next(done_ - 1) || is_overdue();
  if (!asked || checkpoints_.last_step() == done_) return metrics_->flush();
  return checkpoint(done_, false, observer);
}

// Tells the workers of the next checkpoint before `fence`, so that they copy it on their way. Where
// they may go: to the one after it, for they are told of one at a time; or to it, if they cannot
// copy on their way, or still hold what is being written.
int64_t Trainer::announce_checkpoint(int64_t fence) {
  const auto next = checkpoints_.next(announced_);
  if (!next || *next >= fence || passing_) return std::min(fence, next.value_or(fence));
  if (writing_ || job_.asynchronous() || job_.has_quorum()) return *next;
  std::map<std::string, std::vector<std::string>> names;
  for (CheckpointShare& share : share_out(hosts_->hosts(), holds_, variable_bytes_))
    names[share.worker->device_name()] = std::move(share.names);
  if (!training_->snapshot_in_passing(*next, names)) return *next;
  passing_ = announced_ = *next;
  metrics_->mark(*next);
  return std::min(fence, checkpoints_.next(announced_).value_or(fence));
}

// Begins to write what the workers have copied on their way, when the last of them has.
Status Trainer::checkpoint_if_passed(TrainObserver& observer) {
  if (!passing_ || done_ < *passing_ || !training_->finished_everywhere(*passing_)) return {};
  return checkpoint(*std::exchange(passing_, std::nullopt), true, observer);
}

// Hears of the one that is being written, if it is done, or with `wait` when it is.
Status Trainer::collect_checkpoint(TrainObserver& observer, bool wait) {
  if (!writing_ || (!wait && !writing_->done())) return {};
  const auto written = writing_->outcome();
  const Status tidied = writing_->tidied();
  if (const std::string& aside = writing_->what_was_set_aside(); !aside.empty())
    observer.warned(cat("what stood in the place of the checkpoints was set aside, as ", aside));
  const int64_t step = writing_->step();
  writing_.reset();
  if (!written.ok()) {
    note_no_checkpoint(step, written.status(), observer);
    return metrics_->flush();  // without its metrics the training cannot go on
  }
  no_room_.reset();
  checkpoints_.written(*written);
  observer.checkpointed(step, checkpoints_.last_path());
  if (!tidied.ok()) observer.warned(cat("older checkpoints stay: ", tidied.message()));
  return {};
}

// Of the step after which the training ends. This one has to be.
Status Trainer::last_checkpoint(TrainObserver& observer) {
  LEAT_RETURN_IF_ERROR(collect_checkpoint(observer, true));
  if (checkpoints_.last_step() == done_) return {};
  LEAT_RETURN_IF_ERROR(begin_checkpoint(done_, false));
  const Status written = writing_->outcome().status();
  if (!written.ok()) {
    writing_.reset();
    return written;
  }
  return collect_checkpoint(observer, true);
}

}  // namespace leat
