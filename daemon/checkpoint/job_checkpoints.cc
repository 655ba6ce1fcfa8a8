#include "daemon/checkpoint/job_checkpoints.h"

#include "devices/base/text.h"

namespace leat {

JobCheckpoints::JobCheckpoints(Files& files, const Clock& clock, std::string folder,
                               CheckpointRule rule)
    : files_(files), clock_(clock), folder_(std::move(folder)), rule_(rule) {}

Result<Checkpoint> JobCheckpoints::resume(std::vector<std::string>& refused) {
  LEAT_ASSIGN_OR_RETURN(Checkpoint from, read_latest_checkpoint(files_, folder_, refused));
  follow(from.manifest);
  last_metrics_ = from.manifest.metrics;
  return from;
}

// Trainer calls this before the model is read, and follow_newest() when the hosts may be farther
// than the checkpoint.
std::optional<Manifest> JobCheckpoints::newest() const {
  const auto paths = list_checkpoints(files_, folder_);
  if (!paths.ok()) return std::nullopt;
  // The newest first. A folder without a readable manifest is no checkpoint to continue from.
  for (const std::string& path : *paths) {
    auto manifest = read_manifest(files_, path);
    if (manifest.ok()) return std::move(*manifest);
  }
  return std::nullopt;
}

std::optional<int64_t> JobCheckpoints::follow_newest() {
  const auto manifest = newest();
  if (!manifest) return std::nullopt;
  follow(*manifest);
  last_metrics_ = manifest->metrics;
  return manifest->step;
}

void JobCheckpoints::follow(const Manifest& parent) {
  last_ = parent_of(parent);
  last_job_ = parent.job;
  last_provenance_ = parent.provenance;
  last_path_ = cat(folder_, "/", checkpoint_name(parent.step));
}

void JobCheckpoints::follow_none() {
  last_.reset();
  last_path_.clear();
}

Status JobCheckpoints::expect_none() const {
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files_, folder_));
  if (paths.empty()) return {};
  return failed_precondition(
      cat("'", folder_, "': expected no checkpoints where a new run begins, found ",
          paths[0].substr(folder_.size() + 1),
          " of an earlier one; go on with --resume, or choose another folder"));
}

std::optional<int64_t> JobCheckpoints::next(int64_t done) const {
  if (rule_.every_steps == 0) return std::nullopt;
  // The first multiple after `done`, so a checkpoint of `done` itself is not due again.
  return (done / rule_.every_steps + 1) * rule_.every_steps;
}

bool JobCheckpoints::is_overdue() const {
  return rule_.every.count() > 0 && clock_.steady() - since_ >= rule_.every;
}

void JobCheckpoints::start() { since_ = clock_.steady(); }

// A checkpoint without provenance says nothing of its run: it counts as that of another one.
std::string JobCheckpoints::foreign_parent(const std::string& run) const {
  if (!last_ || (last_provenance_ && last_provenance_->run == run)) return "";
  return last_->sha256;
}

// A checkpoint of a run that went on from another one names it, also when that one is gone.
void JobCheckpoints::inherit(Provenance& provenance) const {
  if (last_provenance_) {
    provenance.weights = last_provenance_->weights;
    provenance.lineage = last_provenance_->lineage;
  }
  if (foreign_parent(provenance.run).empty()) return;
  auto& lineage = provenance.lineage;
  if (lineage.size() >= kMostAncestors) lineage.erase(lineage.begin());
  lineage.push_back(
      {last_provenance_ ? last_provenance_->run : "", last_job_, last_->step, last_->sha256});
}

Result<Manifest> JobCheckpoints::begin(Manifest manifest) {
  // The check comes before any file is written.
  if (last_ && manifest.step <= last_->step) {
    return failed_precondition(cat("'", folder_, "': expected a checkpoint after step ",
                                   last_->step, ", which it goes on from, received step ",
                                   manifest.step));
  }
  manifest.previous = last_;
  if (manifest.provenance) inherit(*manifest.provenance);
  start();
  return manifest;
}

void JobCheckpoints::written(const Manifest& manifest) { follow(manifest); }

Status JobCheckpoints::write(Manifest manifest, const Variables& variables) {
  LEAT_ASSIGN_OR_RETURN(manifest, begin(std::move(manifest)));
  // If this fails, last_ stays: the next checkpoint continues from the one before.
  LEAT_ASSIGN_OR_RETURN(const Manifest whole,
                        write_checkpoint(files_, folder_, {std::move(manifest), variables}));
  written(whole);
  start();
  return prune_checkpoints(files_, folder_, rule_.keep);
}

}  // namespace leat
