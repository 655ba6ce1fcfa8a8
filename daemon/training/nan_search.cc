#include "daemon/training/nan_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The time to repeat the steps since the last checkpoint.
constexpr auto kSearch = std::chrono::seconds(120);

bool is_finite(const Tensor& value) {
  if (value.dtype() != DType::f32 && value.dtype() != DType::f64) return true;
  for (int64_t i = 0; i < value.elements(); ++i) {
    if (!std::isfinite(value.at(i))) return false;
  }
  return true;
}

}  // namespace

NanSearch::NanSearch(const TrainingParts& parts, JobPlans& plans, JobVariables& variables,
                     std::string checkpoints, std::unique_ptr<TrainingSteps>& steps)
    : parts_(parts),
      plans_(plans),
      variables_(variables),
      checkpoints_(std::move(checkpoints)),
      steps_(steps) {}

Status NanSearch::failure(int64_t step, double loss) {
  // The search computes the steps again, which gives the same values only if they do not depend on
  // timing.
  const bool repeats = !parts_.job.depends_on_timing() && !parts_.job.program;
  const std::string good = drop_bad_checkpoint(step);
  std::string cause = parts_.job.program
                          ? "a program's graph is not searched for the cause"
                          : "with workers that step by themselves its cause is not known";
  if (repeats) {
    const Result<std::string> found = find(step);
    cause = found.ok() ? cat("the first that is not finite is ", *found)
                       : cat("its cause was not found: ", found.status().message());
  }
  const char* const remedy =
      !parts_.job.depends_on_timing()
          ? "on_nan: skip in the job file leaves such steps out, ignore trains on"
          : "on_nan: ignore in the job file trains on";
  const char* const subject = parts_.job.program ? "a fetch" : "the loss";
  return failed_precondition(cat(subject, " of step ", step + 1, " is ", name_of_number(loss), ": ",
                                 cause, "; ", good, "; ", remedy));
}

// The step began with the variables of the checkpoint of that step, if there is one: these may be
// the cause. Returns a clause about the checkpoints that are left, for people.
std::string NanSearch::drop_bad_checkpoint(int64_t step) {
  constexpr const char* kNone = "there is no checkpoint from before";
  std::vector<std::string> refused;
  const auto newest = read_latest_checkpoint(parts_.files, checkpoints_, refused);
  if (!newest.ok()) return kNone;
  const bool bad = newest->manifest.step == step &&
                   std::any_of(newest->variables.begin(), newest->variables.end(),
                               [](const auto& named) { return !is_finite(named.second); });
  if (!bad) return cat("the last good checkpoint is that of step ", newest->manifest.step);
  const auto all = list_checkpoints(parts_.files, checkpoints_);
  if (!all.ok() || all->size() < 2)
    return cat("the checkpoint of step ", step, " is not finite either, and ", kNone);
  const std::string path = cat(checkpoints_, "/", checkpoint_name(step));
  if (const Status removed = parts_.files.remove_all(path); !removed.ok())
    return cat("'", path, "' is not finite either, and stays: ", removed.message());
  const auto good = read_latest_checkpoint(parts_.files, checkpoints_, refused);
  return good.ok() ? cat("the last good checkpoint is that of step ", good->manifest.step) : kNone;
}

// Brings all hosts to the state before `step` again, from the last checkpoint or from the start.
Status NanSearch::go_back(int64_t step) {
  LEAT_RETURN_IF_ERROR(steps_->hold().status());
  LEAT_RETURN_IF_ERROR(steps_->drain(std::chrono::steady_clock::now() + kSearch));
  std::vector<std::string> refused;
  const auto from = read_latest_checkpoint(parts_.files, checkpoints_, refused);
  int64_t done = from.ok() ? from->manifest.step : 0;
  // A checkpoint after the step would hold the bad values.
  if (done > step) return internal_error(cat("there is a checkpoint of step ", done));
  if (!from.ok() && !plans_.init()) {
    // The first values were freed when the variables had them.
    LEAT_ASSIGN_OR_RETURN(const auto file, parts_.files.open(parts_.job.model.graph));
    LEAT_ASSIGN_OR_RETURN(const std::string sha256, sha256_of(*file));
    if (sha256 != parts_.input.graph_sha256)
      return failed_precondition(cat("'", parts_.job.model.graph,
                                     "': expected the graph that the training began with, SHA-256 ",
                                     parts_.input.graph_sha256, ", found ", sha256));
    LEAT_ASSIGN_OR_RETURN(const Model model,
                          load_model(parts_.files, parts_.catalogue, parts_.job.model,
                                     parts_.input.every_float, !parts_.job.program));
    LEAT_RETURN_IF_ERROR(plans_.make_init(model.training));
  }
  LEAT_RETURN_IF_ERROR(variables_.make(true, done));
  steps_.reset();  // before there are new runs
  LEAT_ASSIGN_OR_RETURN(steps_, start_steps(parts_, plans_.training(), done));
  if (from.ok())
    LEAT_RETURN_IF_ERROR(
        variables_.write(from->variables, Restore::everything, static_cast<uint64_t>(done)));
  const auto due = std::chrono::steady_clock::now() + kSearch;
  while (done < step) {
    steps_->extend(std::min(step, done + steps_->window()));
    LEAT_RETURN_IF_ERROR(steps_->wait(done, due));
    done = std::min(step, steps_->finished());
  }
  return steps_->drain(due);
}

// Computes the forward pass of `step` again, and looks at all of its values.
Result<std::string> NanSearch::find(int64_t step) {
  const Job& job = parts_.job;
  LEAT_ASSIGN_OR_RETURN(const CheckGraph check,
                        make_check_graph(parts_.input.model.training, parts_.spec));
  LEAT_RETURN_IF_ERROR(go_back(step).while_doing("going back to it"));
  LEAT_ASSIGN_OR_RETURN(const auto plan, plans_.compile(check.job, "check", job.shards));
  LEAT_ASSIGN_OR_RETURN(
      auto run, parts_.hosts.run(plan, job.name, {"check", job.seed, static_cast<uint64_t>(step)}));
  const auto at = static_cast<uint64_t>(step);
  run->extend(at + 1);
  LEAT_RETURN_IF_ERROR(run->wait(at, std::chrono::steady_clock::now() + kSearch));
  const Tensor sums = run->fetched(0, at);
  std::vector<bool> finite;
  for (int64_t i = 0; i < sums.elements(); ++i) finite.push_back(std::isfinite(sums.at(i)));
  return first_not_finite(check, finite);
}

}  // namespace leat
