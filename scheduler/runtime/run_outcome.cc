#include "scheduler/runtime/run_outcome.h"

#include <string>

#include "devices/base/text.h"
#include "devices/core/lost_device.h"
#include "ops/graph/op.h"

namespace leat {
void RunOutcome::abort(const Status& cause) {
  // The verdict comes first: once a wait fails, no further step may be decided.
  verdict_.refuse();
  // Only the first failure goes on, so peers and callers all see the same cause.
  if (failed_.exchange(true, std::memory_order_acq_rel)) return;
  // Peers and the caller must know a lost device from the beginning, whichever hears of it first.
  const Status told = as_loss_of(program_.device(), cause);
  Exchange& exchange = program_.exchange();
  for (Channel* channel : exchange.channels) {
    if (channel) channel->abort(told);
  }
  if (exchange.slots) exchange.slots->abort(told);
  // A caller that waits on finished() may destroy the run as soon as it fails: this comes last.
  finished_.fail(told);
}

void RunOutcome::fail(uint64_t step, uint32_t instruction, const Status& status) {
  const Partition& partition = program_.partition();
  const PlanInstruction& made_by = partition.instructions[instruction];
  const std::string subject =
      made_by.op ? cat(made_by.op->full_name(), " '", made_by.name, "'") : made_by.name;
  // A kernel's message may name its node already.
  std::string message = status.message();
  if (message.find(made_by.name) == std::string::npos) message = cat(subject, ": ", message);
  abort(Status(status.code(), message)
            .while_doing(
                cat("running step ", step, " of ", options_.name, " on ", partition.device)));
}

// A timeline that failed may have reached the value before, and then the run can go on.
bool RunOutcome::fails_with(const Awaited& awaited) {
  const auto lost = [](Timeline* timeline, uint64_t value) {
    return timeline && timeline->failed() && !timeline->reached(value);
  };
  Timeline* failed = lost(awaited.timeline, awaited.value) ? awaited.timeline : nullptr;
  for (const Awaited::Other& other : awaited.others) {
    if (!failed && lost(other.timeline, other.value)) failed = other.timeline;
  }
  if (!failed) return false;
  Status cause = failed->status();
  // A device knows what failed, and not in whose run.
  for (const QueueFor queue : {QueueFor::compute, QueueFor::copies_in, QueueFor::copies_out}) {
    if (failed != &program_.device().queue(queue).timeline()) continue;
    cause = cause.while_doing(cat("running ", options_.name, " on ", program_.partition().device));
    break;
  }
  abort(cause);
  return true;
}

void RunOutcome::finish(uint64_t turns) {
  while (turns_ < turns) finished_.signal(++turns_);
}

}  // namespace leat
