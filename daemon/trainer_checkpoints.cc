// The checkpoints of a training: begun at a fence, written beside the steps, heard of later.
#include "daemon/trainer.h"
#include "devices/base/text.h"

namespace leat {
namespace {

std::string_view bool_text(bool value) { return value ? "true" : "false"; }

}  // namespace

JobCheckpoints Trainer::checkpoints_of(const Job& job, const TrainOptions& options, Files& files,
                                       const Clock& clock) {
  const Job::Checkpoint& c = job.checkpoint;
  return JobCheckpoints(
      files, clock, c.path.empty() ? options.folder + "/checkpoints" : c.path,
      {c.every_steps, std::chrono::duration<double>(c.every_minutes * 60), c.keep});
}

// That the job goes on with the run that wrote the checkpoint: each step reads what it would have
// read. Anything else a job says may change on the way.
Status Trainer::check_checkpoint(const Manifest& from) const {
  std::vector<std::string> expected, received;
  const auto compare = [&](std::string_view key, const auto& was, const auto& is) {
    if (was == is) return;
    expected.push_back(cat(key, " ", was));
    received.push_back(cat(key, " ", is));
  };
  compare("name", from.job, job_.name);
  compare("shards", from.shards, job_.shards);
  compare("seed", from.seed, job_.seed);
  compare("global_batch_size", from.data.global_batch_size, data_order_.global_batch_size);
  compare("data.shuffle", bool_text(from.data.shuffle), bool_text(data_order_.shuffle));
  compare("rows", from.data.rows, data_order_.rows);
  compare("features of", from.data.features, data_order_.features);
  compare("labels of", from.data.labels, data_order_.labels);
  if (!expected.empty()) {
    return invalid_argument(cat("checkpoint of step ", from.step, ": expected ",
                                join(expected, ", "), " as when it was written, received ",
                                join(received, ", "), "; change back, or begin a new run"));
  }
  if (from.step > total_steps_) {
    return invalid_argument(cat("checkpoint of step ", from.step, ": expected at most ",
                                total_steps_, ", the steps of the job"));
  }
  return {};
}

Manifest Trainer::manifest() const {
  Manifest manifest;
  manifest.step = done_;
  manifest.job = job_.name;
  manifest.graph = graph_sha256_;
  manifest.seed = job_.seed;
  manifest.shards = job_.shards;
  manifest.data = data_order_;
  manifest.strategy = name_of(job_.strategy);
  manifest.workers = workers();
  return manifest;
}

// REQUIRES: none is being written.
Status Trainer::begin_checkpoint() {
  CheckpointOrder order;
  order.files = &files_;
  order.folder = checkpoints_.folder();
  order.keep = checkpoints_.keep();
  order.job = job_.name;
  order.shares = share_out(cluster_->master().workers(), holds_, variable_bytes_);
  LEAT_ASSIGN_OR_RETURN(order.manifest, checkpoints_.begin(manifest()));
  // The steps that a checkpoint says are done have their metrics.
  order.first = [metrics = metrics_.get()] { return metrics->sync(); };
  LEAT_ASSIGN_OR_RETURN(writing_, CheckpointTask::begin(std::move(order)));
  return {};
}

// At a fence. What goes wrong costs a checkpoint and not the job: the next one may find room.
Status Trainer::checkpoint_if_due(TrainObserver& observer) {
  const bool asked = done_ == checkpoints_.next(done_ - 1) || checkpoints_.is_overdue();
  if (!asked || checkpoints_.last_step() == done_) return metrics_->flush();
  LEAT_RETURN_IF_ERROR(collect_checkpoint(observer, !options_.skip_checkpoints));
  if (writing_) {
    observer.noted(cat("no checkpoint of step ", done_, ": that of step ", writing_->step(),
                       " is still being written"));
    return metrics_->flush();
  }
  const Status begun = begin_checkpoint();
  if (!begun.ok()) observer.warned(cat("no checkpoint of step ", done_, ": ", begun.message()));
  return {};
}

// Hears of the one that is being written, if it is done, or with `wait` when it is.
Status Trainer::collect_checkpoint(TrainObserver& observer, bool wait) {
  if (!writing_ || (!wait && !writing_->done())) return {};
  const auto written = writing_->outcome();
  const Status tidied = writing_->tidied();
  const int64_t step = writing_->step();
  writing_.reset();
  if (!written.ok()) {
    observer.warned(cat("no checkpoint of step ", step, ": ", written.status().message()));
    return metrics_->flush();  // without its metrics the training cannot go on
  }
  checkpoints_.written(*written);
  observer.checkpointed(step, checkpoints_.last_path());
  if (!tidied.ok()) observer.warned(cat("older checkpoints stay: ", tidied.message()));
  return {};
}

// Of the step after which the training ends. This one has to be.
Status Trainer::last_checkpoint(TrainObserver& observer) {
  LEAT_RETURN_IF_ERROR(collect_checkpoint(observer, true));
  if (checkpoints_.last_step() == done_) return {};
  LEAT_RETURN_IF_ERROR(begin_checkpoint());
  const Status written = writing_->outcome().status();
  if (!written.ok()) {
    writing_.reset();
    return written;
  }
  return collect_checkpoint(observer, true);
}

}  // namespace leat
