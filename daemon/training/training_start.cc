#include "daemon/training/training_start.h"

#include <utility>
#include <vector>

#include "daemon/checkpoint/check_continues.h"
#include "daemon/checkpoint/set_aside.h"
#include "daemon/training/best_epoch.h"
#include "daemon/training/checkpointer.h"
#include "daemon/training/export_model.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Sets the checkpoints after `step` aside, and warns the observer of them.
Status set_aside_after(const TrainingParts& parts, const JobCheckpoints& checkpoints, int64_t step,
                       TrainObserver& observer) {
  LEAT_ASSIGN_OR_RETURN(const auto aside,
                        set_aside_checkpoints_after(parts.files, checkpoints.folder(), step));
  if (!aside.empty())
    observer.warned(cat("checkpoints of no use were set aside, as ", join(aside, ", ")));
  return {};
}

// The name of a queue, or of other state that is in no checkpoint; "" if the model has none.
std::string state_without_checkpoint(const Graph& model) {
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const Node& node = model.node(id);
    const std::string name = node.op->full_name();
    if (node.op->make_resource && name != "leat.Variable" && has_attr(node.attrs, "name"))
      return cat(name, " '", attr_string(node.attrs, "name"), "'");
  }
  return "";
}

}  // namespace

std::string_view name_of(TrainSource source) {
  static constexpr std::string_view kNames[] = {"start", "checkpoint", "memory"};
  return kNames[static_cast<int>(source)];
}

StartFinder::StartFinder(const TrainingParts& parts, JobVariables& variables,
                         JobCheckpoints& checkpoints, TrainObserver& observer)
    : parts_(parts), variables_(variables), checkpoints_(checkpoints), observer_(observer) {}

// Returns the newest checkpoint that verifies. It must be of this job.
Result<Checkpoint> StartFinder::newest_checkpoint() {
  // With the variables of one step and an empty queue, the job would not end with the same weights.
  if (const std::string state = state_without_checkpoint(parts_.input.model.training);
      !state.empty() && checkpoints_.newest()) {
    return failed_precondition(cat("the job has a ", state,
                                   ", which is in no checkpoint: ", "expected to begin at step 0"));
  }
  std::vector<std::string> refused;
  auto newest = checkpoints_.resume(refused);
  for (const std::string& reason : refused)
    observer_.warned("a checkpoint was passed over: " + reason);
  if (!newest.ok()) return newest;
  const Manifest& from = newest->manifest;
  LEAT_RETURN_IF_ERROR(check_continues(from, manifest_of(parts_, from.step), parts_.length.steps));
  return newest;
}

Status StartFinder::look_at_disk() {
  const TrainOptions& options = parts_.options;
  if (!options.resume) return checkpoints_.expect_none();
  // To read and verify a checkpoint takes long, and the hosts may be farther: only its step is
  // read.
  if (options.survivors) {
    on_disk_ = checkpoints_.follow_newest().value_or(0);
  } else if (!options.begin_anew) {
    LEAT_ASSIGN_OR_RETURN(start_.checkpoint, newest_checkpoint());
  }
  return {};
}

Result<TrainingStart> StartFinder::find() {
  LEAT_ASSIGN_OR_RETURN(start_.held, variables_.find_held(on_disk_));
  if (start_.checkpoint || start_.held) return std::move(start_);
  if (!parts_.options.resume) {
    LEAT_RETURN_IF_ERROR(forget_saved());
    return std::move(start_);
  }
  auto newest = newest_checkpoint();
  // No host is as far as the newest checkpoint, so it is read after all. If it is damaged, an older
  // step of the hosts may be good enough. For any other error, such as a key that is not here, an
  // older step would lose what may be whole.
  if (!newest.ok() && newest.status().code() != Code::failed_precondition) return newest.status();
  const int64_t least = newest.ok() ? newest->manifest.step : 0;
  if (least < on_disk_) {  // the newest ones are damaged
    LEAT_ASSIGN_OR_RETURN(start_.held, variables_.find_held(least));
  }
  if (start_.held) return std::move(start_);
  if (newest.ok()) {
    start_.checkpoint = std::move(*newest);
  } else {
    LEAT_ASSIGN_OR_RETURN(start_.checkpoint, begin_anew(newest.status()));
  }
  return std::move(start_);
}

// Removes what the graph saved after steps that are to come again. The files that a run in the same
// folder finds are those of another training, and stay.
Status StartFinder::forget_saved() {
  const TrainOptions& options = parts_.options;
  if (!options.begin_anew) return {};
  return options.forget_saved ? options.forget_saved()
                              : parts_.files.remove_all(saved_folder(options));
}

// No host holds a step, and no checkpoint is whole, for the reason `why`. Returns the checkpoint
// that the job was submitted with, if there was one.
Result<std::optional<Checkpoint>> StartFinder::begin_anew(const Status& why) {
  std::optional<Checkpoint> from;
  if (!parts_.options.begin_anew || why.code() != Code::failed_precondition) return why;
  // To begin again gives other weights here, and no program should decide for that.
  if (parts_.job.depends_on_timing()) {
    return why.while_doing(
        "going on, and its weights depend on timing, so that to begin once more is for a person to "
        "decide: submit it again");
  }
  LEAT_RETURN_IF_ERROR(set_aside_after(parts_, checkpoints_, -1, observer_));
  checkpoints_.follow_none();
  LEAT_RETURN_IF_ERROR(forget_saved());
  bool came_with_one = false;
  if (parts_.options.first_checkpoint) {
    LEAT_ASSIGN_OR_RETURN(came_with_one, parts_.options.first_checkpoint());
  }
  if (came_with_one) {
    LEAT_ASSIGN_OR_RETURN(from, newest_checkpoint());
  }
  observer_.warned(cat("BEGINS ONCE MORE at step ", from ? from->manifest.step : 0, ": ",
                       why.message(), ", and no worker holds a step of it; the weights will ",
                       "be the same"));
  return from;
}

Status set_aside_refused(const TrainingParts& parts, const JobCheckpoints& checkpoints,
                         TrainObserver& observer) {
  if (checkpoints.last_step() < 0) return {};
  return set_aside_after(parts, checkpoints, checkpoints.last_step(), observer);
}

Status make_way(const TrainingParts& parts, const std::string& checkpoints,
                TrainObserver& observer) {
  // Passes an error on, and warns of a path that was set aside.
  const auto told = [&](Result<std::string> aside) -> Status {
    LEAT_RETURN_IF_ERROR(aside.status());
    if (!aside->empty()) observer.warned(cat("what stood in the way was set aside, as ", *aside));
    return {};
  };
  const std::string& graph = parts.job.model.graph;
  LEAT_RETURN_IF_ERROR(told(make_way_for_folder(parts.files, checkpoints)));
  if (!parts.job.exports.empty()) {
    LEAT_RETURN_IF_ERROR(
        told(make_way_for_folder(parts.files, cat(parts.options.folder, "/", kRunExports))));
  }
  for (const std::string& name :
       {std::string("job.yaml"), std::string("weights.safetensors"),
        std::string("raw_weights.safetensors"), std::string("metrics.jsonl"),
        std::string(kBestWeights), std::string(kConfusionMatrix),
        graph.substr(graph.rfind('/') + 1)}) {
    LEAT_RETURN_IF_ERROR(
        told(make_way_for_file(parts.files, cat(parts.options.folder, "/", name))));
  }
  return {};
}

}  // namespace leat
