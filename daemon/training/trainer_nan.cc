// A loss that is NaN or infinite: which op made it, and what of the training is still good.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "daemon/base/json_line.h"
#include "daemon/training/trainer.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// To do the steps since the last checkpoint once more.
constexpr auto kSearch = std::chrono::seconds(120);

bool is_finite(const Tensor& value) {
  if (value.dtype() != DType::f32 && value.dtype() != DType::f64) return true;
  for (int64_t i = 0; i < value.elements(); ++i) {
    if (!std::isfinite(value.at(i))) return false;
  }
  return true;
}

}  // namespace

// With the first skipped step, and then ever more rarely: when their number is a power of 10.
void Trainer::note_skipped(int64_t step, double loss, TrainObserver& observer) const {
  const int64_t skipped = metrics_->skipped_steps();
  int64_t power = 1;
  while (power < skipped) power *= 10;
  if (power != skipped) return;
  const std::string why = std::isfinite(loss) ? "an update of it is not finite"
                                              : cat("its loss is ", name_of_number(loss));
  observer.warned(cat("step ", step + 1, " was skipped: ", why, "; ", counted(skipped, "step"),
                      " skipped so far"));
}

// The failure of `step`, counted from 0, with what is known of its cause.
Status Trainer::not_finite(int64_t step, double loss, TrainObserver& observer) {
  LEAT_RETURN_IF_ERROR(metrics_->flush());
  const std::string what = cat("the loss of step ", step + 1, " is ", name_of_number(loss));
  LEAT_RETURN_IF_ERROR(collect_checkpoint(observer, true).while_doing(what));
  const std::string good = drop_bad_checkpoint(step);
  std::string cause = "with workers that step by themselves its cause is not known";
  if (!job_.depends_on_timing()) {
    const Result<std::string> found = find_not_finite(step);
    cause = found.ok() ? cat("the first that is not finite is ", *found)
                       : cat("its cause was not found: ", found.status().message());
  }
  const char* const remedy =
      job_.depends_on_timing()
          ? "on_nan: ignore in the job file trains on"
          : "on_nan: skip in the job file leaves such steps out, ignore trains on";
  return failed_precondition(cat(what, ": ", cause, "; ", good, "; ", remedy));
}

// The step was done with the variables of a checkpoint of that step, if there is one: they may be
// what is wrong. What is left of good ones, for people.
std::string Trainer::drop_bad_checkpoint(int64_t step) {
  constexpr const char* kNone = "there is no checkpoint from before";
  std::vector<std::string> refused;
  const auto newest = read_latest_checkpoint(files_, checkpoints_.folder(), refused);
  if (!newest.ok()) return kNone;
  const bool bad = newest->manifest.step == step &&
                   std::any_of(newest->variables.begin(), newest->variables.end(),
                               [](const auto& named) { return !is_finite(named.second); });
  if (!bad) return cat("the last good checkpoint is that of step ", newest->manifest.step);
  const auto all = list_checkpoints(files_, checkpoints_.folder());
  if (!all.ok() || all->size() < 2)
    return cat("the checkpoint of step ", step, " is not finite either, and ", kNone);
  const std::string path = cat(checkpoints_.folder(), "/", checkpoint_name(step));
  if (const Status removed = files_.remove_all(path); !removed.ok())
    return cat("'", path, "' is not finite either, and stays: ", removed.message());
  const auto good = read_latest_checkpoint(files_, checkpoints_.folder(), refused);
  return good.ok() ? cat("the last good checkpoint is that of step ", good->manifest.step) : kNone;
}

// All workers come to the state before `step` once more, from the last checkpoint or the start.
Status Trainer::go_back(int64_t step) {
  LEAT_RETURN_IF_ERROR(training_->hold().status());
  LEAT_RETURN_IF_ERROR(training_->drain(std::chrono::steady_clock::now() + kSearch));
  std::vector<std::string> refused;
  const auto from = read_latest_checkpoint(files_, checkpoints_.folder(), refused);
  done_ = from.ok() ? from->manifest.step : 0;
  if (done_ > step) return internal_error(cat("there is a checkpoint of step ", done_));
  LEAT_RETURN_IF_ERROR(start_training(true));
  if (from.ok())
    LEAT_RETURN_IF_ERROR(
        restore(from->variables, Restore::everything, static_cast<uint64_t>(done_)));
  const auto due = std::chrono::steady_clock::now() + kSearch;
  while (done_ < step) {
    training_->extend(std::min(step, done_ + training_->window()));
    LEAT_RETURN_IF_ERROR(training_->wait(done_, due));
    done_ = std::min(step, training_->finished());
  }
  return training_->drain(due);
}

// Does the forward pass of `step` once more, and looks at all of its values.
Result<std::string> Trainer::find_not_finite(int64_t step) {
  LEAT_ASSIGN_OR_RETURN(const CheckGraph check, make_check_graph(*model_, spec()));
  LEAT_RETURN_IF_ERROR(go_back(step).while_doing("going back to it"));
  LEAT_ASSIGN_OR_RETURN(const auto plan, compile(check.job, plan_options("check", job_.shards)));
  LEAT_ASSIGN_OR_RETURN(
      auto run, hosts_->run(plan, job_.name, {"check", job_.seed, static_cast<uint64_t>(step)}));
  const auto at = static_cast<uint64_t>(step);
  run->extend(at + 1);
  LEAT_RETURN_IF_ERROR(run->wait(at, std::chrono::steady_clock::now() + kSearch));
  const Tensor sums = run->fetched(0, at);
  std::vector<bool> finite;
  for (int64_t i = 0; i < sums.elements(); ++i) finite.push_back(std::isfinite(sums.at(i)));
  return first_not_finite(check, finite);
}

}  // namespace leat
