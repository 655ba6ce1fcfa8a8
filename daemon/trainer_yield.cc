// How a training ends at a fence, so that another one goes on from there, on other workers.
#include "daemon/trainer.h"
#include "devices/base/text.h"

namespace leat {

bool Trainer::asked_to_yield() const {
  return options_.yields && options_.yields() != TrainYield::no;
}

bool Trainer::is_to_yield() const { return done_ < total_steps_ && asked_to_yield(); }

// It has trained without some of its workers, and evaluates on all.
bool Trainer::needs_others() const { return lost_some_ && options_.yields; }

// All workers stand after the same step. A variable that is on one worker alone is saved, whoever
// stays: others may have that worker's place.
Result<TrainOutcome> Trainer::yield(TrainObserver& observer) {
  const bool saves =
      options_.yields() == TrainYield::saved || job_.strategy != Job::Strategy::mirrored;
  Status saved;
  if (saves && done_ > 0) {
    saved = last_checkpoint(observer);
    if (saved.code() != Code::resource_exhausted) LEAT_RETURN_IF_ERROR(saved);
    if (!saved.ok()) observer.warned(cat("no checkpoint of step ", done_, ": ", saved.message()));
  }
  LEAT_RETURN_IF_ERROR(metrics_->flush());
  TrainOutcome outcome;
  outcome.yielded = true;
  outcome.saved = saves && saved.ok();
  outcome.no_room = !saved.ok();
  outcome.steps = done_;
  outcome.checkpoint = checkpoints_.last_path();
  return outcome;
}

}  // namespace leat
