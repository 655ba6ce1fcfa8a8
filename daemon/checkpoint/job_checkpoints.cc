#include "daemon/checkpoint/job_checkpoints.h"

#include "devices/base/text.h"

namespace leat {

JobCheckpoints::JobCheckpoints(Files& files, const Clock& clock, std::string folder,
                               CheckpointRule rule)
    : files_(files), clock_(clock), folder_(std::move(folder)), rule_(rule) {}

Result<Checkpoint> JobCheckpoints::resume(std::vector<std::string>& refused) {
  LEAT_ASSIGN_OR_RETURN(Checkpoint from, read_latest_checkpoint(files_, folder_, refused));
  last_ = parent_of(from.manifest);
  metrics_ = from.manifest.metrics;
  last_path_ = cat(folder_, "/", checkpoint_name(last_->step));
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
  last_ = parent_of(*manifest);
  metrics_ = manifest->metrics;
  last_path_ = cat(folder_, "/", checkpoint_name(manifest->step));
  return manifest->step;
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

Result<Manifest> JobCheckpoints::begin(Manifest manifest) {
  // The check comes before any file is written.
  if (last_ && manifest.step <= last_->step) {
    return failed_precondition(cat("'", folder_, "': expected a checkpoint after step ",
                                   last_->step, ", which it goes on from, received step ",
                                   manifest.step));
  }
  manifest.previous = last_;
  start();
  return manifest;
}

void JobCheckpoints::written(const Manifest& manifest) {
  last_ = parent_of(manifest);
  last_path_ = cat(folder_, "/", checkpoint_name(manifest.step));
}

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
