// How a training ends at a fence, so that another one goes on from there, on other workers.
#include "daemon/base/retry_while_full.h"
#include "daemon/training/trainer.h"
#include "devices/base/text.h"

namespace leat {

bool Trainer::asked_to_yield() const {
  return options_.yields && options_.yields() != TrainYield::no;
}

// A variable that is on one worker alone is saved, whoever stays: others may have that worker's
// place.
bool Trainer::saves_to_yield() const {
  return options_.yields() == TrainYield::saved || job_.strategy != Job::Strategy::mirrored;
}

// Not where it would have to wait for room, unless the workers go no further.
bool Trainer::may_yield() const {
  if (held_ || !asked_to_yield()) return held_;
  return !(no_room_ && saves_to_yield()) && !metrics_->is_behind();
}

bool Trainer::is_to_yield() const { return done_ < total_steps_ && may_yield(); }

// It has trained without some of its workers, and evaluates on all.
bool Trainer::needs_others() const { return lost_some_ && options_.yields; }

// A checkpoint is due as soon as can be; also to see whether there is room by now.
bool Trainer::is_overdue() const {
  if (checkpoints_.is_overdue()) return true;
  return no_room_ && asked_to_yield() && saves_to_yield() &&
         clock_.steady() >= *no_room_ + options_.save_again;
}

// What a job has come to waits ten minutes: time for a person to make room.
Status Trainer::retry_for_room(const std::function<Status()>& attempt, TrainObserver& observer,
                               const std::function<bool()>& stop) {
  const auto told = [&](const Status& full) {
    const std::string text = cat("waits for room: ", full.message());
    observer.warned(text);
    observer.waits(text);
  };
  const Status status = retry_while_full(attempt, stop, told);
  observer.waits("");
  return status;
}

// All workers stand after the same step, and go no further.
Result<TrainOutcome> Trainer::yield(TrainObserver& observer, const std::function<bool()>& stop) {
  bool saves = false;  // it may be asked for while they stand here
  const auto leave = [&]() -> Status {
    saves = saves_to_yield();
    if (saves && done_ > 0) LEAT_RETURN_IF_ERROR(last_checkpoint(observer));
    return metrics_->sync();
  };
  const Status left = retry_for_room(leave, observer, stop);
  if (left.code() != Code::resource_exhausted) LEAT_RETURN_IF_ERROR(left);
  if (!left.ok()) observer.warned(cat("step ", done_, " is not saved: ", left.message()));
  TrainOutcome outcome;
  outcome.yielded = true;
  outcome.saved = left.ok() && saves;
  outcome.steps = done_;
  outcome.checkpoint = checkpoints_.last_path();
  return outcome;
}

}  // namespace leat
