#include "daemon/training/checkpointer.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "devices/base/text.h"

namespace leat {

Manifest manifest_of(const TrainingParts& parts, int64_t step) {
  const Job& job = parts.job;
  Manifest manifest;
  manifest.step = step;
  manifest.job = job.name;
  manifest.graph = parts.input.graph_sha256;
  manifest.seed = job.seed;
  manifest.shards = job.shards;
  manifest.data = parts.input.order;
  manifest.every_float = !parts.input.trains_parameters(job);
  manifest.strategy = job.strategy;
  manifest.workers = parts.workers;
  return manifest;
}

Checkpointer::Checkpointer(const TrainingParts& parts, const JobPlans& plans, JobCheckpoints& store,
                           MetricsLog& metrics, TrainObserver& observer, Provenance provenance)
    : parts_(parts),
      plans_(plans),
      store_(store),
      metrics_(metrics),
      observer_(observer),
      provenance_(std::move(provenance)),
      metrics_hash_(std::make_shared<PrefixHash>(parts.files, parts.metrics_path())) {}

void Checkpointer::begin_steps(int64_t done) {
  // With one announced its step stays the newest that hosts know of.
  if (!passing_) announced_ = done;
}

// A training that is to save before it yields, and found no room, also tries again from time to
// time.
bool Checkpointer::is_overdue() const {
  if (store_.is_overdue() || asked() > served_) return true;
  return no_room_ && parts_.asked_to_yield() && parts_.saves_to_yield() &&
         parts_.clock.steady() >= *no_room_ + parts_.options.save_again;
}

uint64_t Checkpointer::asked() const {
  return parts_.options.checkpoints_asked ? parts_.options.checkpoints_asked() : 0;
}

// REQUIRES: no checkpoint is being written.
Status Checkpointer::begin(int64_t step, Source source) {
  CheckpointOrder order;
  order.files = &parts_.files;
  order.folder = store_.folder();
  order.keep = store_.keep();
  order.job = parts_.job.name;
  order.shares = plans_.shares();
  order.taken = source == Source::passing;
  order.lends = source == Source::lent;
  order.hosts_write = parts_.options.hosts_write_parts;
  Manifest manifest = manifest_of(parts_, step);
  manifest.provenance = provenance_;
  LEAT_ASSIGN_OR_RETURN(order.manifest, store_.begin(std::move(manifest)));
  order.key = parts_.options.key;
  order.metrics = metrics_hash_;
  // Rows after the step may be in the log already if the snapshot was taken in passing: mark() has
  // kept the digest of the step itself.
  order.manifest.metrics = metrics_.digest_at(step);
  // A checkpoint says that steps are done: their metrics must be on the disk before it.
  order.first = [&metrics = metrics_] { return metrics.sync(); };
  LEAT_ASSIGN_OR_RETURN(writing_, CheckpointTask::begin(std::move(order)));
  return {};
}

Status Checkpointer::take(int64_t step, bool taken) {
  // One checkpoint is written at a time. A slow disk costs either this checkpoint or the time until
  // the other one is written.
  LEAT_RETURN_IF_ERROR(collect(!parts_.options.skip_checkpoints));
  if (writing_) {
    if (writing_->step() != step)
      observer_.noted(cat("no checkpoint of step ", step, ": that of step ", writing_->step(),
                          " is still being written"));
    return metrics_.flush();
  }
  const uint64_t asked_for = asked();
  const Status begun = begin(step, taken ? Source::passing : Source::copy);
  // One that cannot be written is not tried again at once: the observer is warned.
  served_ = asked_for;
  if (!begun.ok()) note_missing(step, begun);
  return {};
}

void Checkpointer::note_missing(int64_t step, const Status& why) {
  observer_.warned(cat("no checkpoint of step ", step, ": ", why.message()));
  // Once the disk was full, any failure counts as such until a checkpoint succeeds.
  if (no_room_ || why.code() == Code::resource_exhausted) no_room_ = parts_.clock.steady();
}

int64_t Checkpointer::announce(int64_t fence, TrainingSteps& steps) {
  const auto next = store_.next(announced_);
  if (!next || *next >= fence || passing_) return std::min(fence, next.value_or(fence));
  // Without an announcement the steps end at the checkpoint, where all hosts stand still for it.
  if (writing_ || !parts_.rules.has_common_steps()) return *next;
  std::map<std::string, std::vector<std::string>> names;
  for (CheckpointShare& share : plans_.shares())
    names[share.worker->task()] = std::move(share.names);
  if (!steps.snapshot_in_passing(*next, names)) return *next;
  passing_ = announced_ = *next;
  // The log remembers its digest when it gets the row of that step.
  metrics_.mark(*next);
  return std::min(fence, store_.next(announced_).value_or(fence));
}

Status Checkpointer::take_if_passed(int64_t done, TrainingSteps& steps) {
  // The fetching hosts may be ahead of others; each must have copied its variables.
  if (!passing_ || done < *passing_ || !steps.finished_everywhere(*passing_)) return {};
  return take(*std::exchange(passing_, std::nullopt), true);
}

Status Checkpointer::take_if_due(int64_t done) {
  const bool due = done == store_.next(done - 1) || is_overdue();
  // A checkpoint of this very step exists, and would be its own parent.
  if (due && store_.last_step() == done) served_ = asked();
  if (!due || store_.last_step() == done) return metrics_.flush();
  return take(done, false);
}

Status Checkpointer::collect(bool wait) {
  if (!writing_ || (!wait && !writing_->done())) return {};
  const auto written = writing_->outcome();
  const Status tidied = writing_->tidied();
  if (const std::string& aside = writing_->what_was_set_aside(); !aside.empty())
    observer_.warned(cat("what stood in the place of the checkpoints was set aside, as ", aside));
  const int64_t step = writing_->step();
  writing_.reset();
  if (!written.ok()) {
    note_missing(step, written.status());
    return metrics_.flush();  // a training that cannot write its metrics does not continue
  }
  no_room_.reset();
  // Only now the checkpoint is the parent of the next one.
  store_.written(*written);
  observer_.checkpointed(step, store_.last_path());
  if (!tidied.ok()) observer_.warned(cat("older checkpoints stay: ", tidied.message()));
  return {};
}

Status Checkpointer::take_last(int64_t done) {
  LEAT_RETURN_IF_ERROR(collect(true));
  if (store_.last_step() == done) return {};
  // The caller gets the status, as it may wait for room and try again; collect() would only warn.
  Status written = begin(done, Source::lent);
  if (written.ok()) written = writing_->outcome().status();
  for (HostHandle* host : parts_.hosts.hosts()) host->drop_snapshot();
  if (!written.ok()) {
    writing_.reset();
    return written;
  }
  return collect(true);
}

}  // namespace leat
