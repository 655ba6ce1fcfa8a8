// Turns events into facts of a job. cluster_job.cc derives decisions from the facts.
#include "daemon/jobs/cluster_job.h"
#include "daemon/spec/chaos_fault.h"
#include "devices/base/text.h"

namespace leat {

// One call operator for each event. An operator stores facts and then decides; it returns false
// only where ClusterJob::handle() does.
struct ClusterJob::Listener {
  ClusterJob& job;
  JobRunners& runners = job.runners_;
  JobFailures& failures = job.failures_;
  Assembly& assembly = runners.assembly();

  // Workers.
  bool operator()(const WorkerLost& event) {
    const std::string subject = cat("worker '", event.worker.name, "' was lost: ");
    return gone(event.worker, subject, {event.reason, false}, event.silent);
  }
  bool operator()(const WorkerStuck& event) {
    failures.of_stuck(event.worker, cat("worker '", event.worker.name, "' is stuck: "),
                      event.reason, event.still);
    return decide();
  }
  bool operator()(const WorkerDraining& event) {
    // A running assembly ends at a fence instead, which advance() asks for.
    if (event.draining) part(cat("worker '", event.worker.name, "' is draining"));
    return decide();
  }

  // Runners.
  bool operator()(const RunnerStarted& event) {
    if (!is_meant(event) || assembly.mode() == Assembly::Mode::stopping) return false;
    if (!assembly.arrived(event.worker, event.assembly)) return false;
    if (assembly.mode() == Assembly::Mode::parted)
      job.context_.queue_changed = true;  // it may be the last to arrive
    return decide();
  }
  bool operator()(const RunnerExited& event) {
    // A stray runner, or one that was counted as gone when its worker was lost.
    if (!assembly.has(event.worker, event.assembly)) return true;
    return gone(event.worker, cat("the runner on '", event.worker.name, "' "), event.end,
                std::nullopt);
  }
  bool operator()(const LinkFailed& event) {
    if (is_meant(event)) failures.link_failed(event);
    return true;
  }
  bool operator()(const DeviceFailed& event) {
    if (is_meant(event)) failures.device_failed(event);
    return true;
  }
  // The worker goes as a stuck one does, and does not get the job back if another can have it.
  bool operator()(const InputStarved& event) {
    if (!is_meant(event) || !assembly.has_place(event.worker)) return true;
    runners.demand().leave_out(event.worker.name, true);
    failures.of_stuck(event.worker, cat("worker '", event.worker.name, "' gets no input: "),
                      event.how, event.waited);
    part(event.how);
    return decide();
  }

  // The run.
  bool operator()(const JobFinished& event) {
    // The run of an assembly that is over may still report its end.
    const bool runs = job.state() == JobState::running || job.state() == JobState::pausing;
    if (!goes(event) || !runs) return true;
    job.finished_ = event.result;
    return decide();
  }
  bool operator()(const JobBroke& event) {
    if (!is_meant(event) || assembly.all_gone()) return true;
    failures.of_run(event.cause, event.culprit);
    return decide();
  }
  bool operator()(const RunYielded& event) {
    // After a failure the stop at a fence no longer matters: the failure ends the assembly.
    if (!is_meant(event) || !runners.run().runs() || failures.now() != nullptr) return true;
    RunYield why = runners.run().yielded(event.saved);
    if (job.state() == JobState::pausing) {
      // The job is PAUSED when all runners are gone.
      runners.stop(job.job_.condition.reason);
    } else if (why.then == RunYield::Then::moves) {
      failures.give_up(std::move(why), event.step);
    } else {
      const bool ends = why.then == RunYield::Then::ends;
      const std::string way_on =
          cat("; leat submit --resume ", event.job, " continues from step ", event.step);
      job.leave_ = {ends ? JobState::failed : JobState::queued,
                    why.cause + (ends && event.saved ? way_on : "")};
    }
    return decide();
  }
  bool operator()(const RunWaits& event) {
    if (!goes(event)) return true;
    runners.run().waits(event.for_what);
    job.touch();
    return true;
  }
  bool operator()(const ProgressMade& event) {
    if (!goes(event)) return true;
    runners.run().made_progress(event.report);
    job.touch();
    // A step that was done before a failure is no sign that the job has recovered.
    if (failures.now() != nullptr) return true;
    if (job.past_.goes_on(event.report, assembly.assembly())) job.advance();
    return true;
  }
  bool operator()(const FaultAsked& event) {
    // A fault must not hit the next assembly by mistake, nor a job that is done.
    const bool over = !goes(event) || has_ended(job.state()) || job.finished_;
    if (over || failures.now() != nullptr) return false;
    if (job.past_.ask(event)) return decide();
    job.context_.refuse(event, kFaultCameBefore);
    return true;
  }
  template <typename Other>
  bool operator()(const Other&) {
    return true;
  }

  // The event is about the assembly that is the last one, and about one that is not over.
  bool is_meant(const auto& event) const {
    return event.assembly != 0 && event.assembly == assembly.assembly();
  }
  bool goes(const auto& event) const {
    return is_meant(event) && assembly.mode() == Assembly::Mode::going;
  }
  bool decide() {
    job.advance();
    return true;
  }
  // Only for an assembly that is over: a runner that was kept for the next one has to leave now.
  void part(const std::string& reason) {
    if (assembly.mode() == Assembly::Mode::parted) runners.part(reason, failures.last_was_stuck());
  }
  bool gone(const WorkerRef& worker, const std::string& subject, const RunnerEnd& end,
            std::optional<std::chrono::milliseconds> detected_after) {
    // The loss of a spare worker is no failure. After a failure every loss goes to of_worker(),
    // which decides whether it is the cause.
    const std::string device = failures.device_error_of(worker);
    const std::string lost = cat(subject, end.how, device.empty() ? "" : ": ", device);
    if (failures.now() == nullptr && runners.run().goes_on_without(worker, lost)) {
      job.touch();
    } else {
      failures.of_worker(worker, subject, end.how, end.crashed, detected_after);
    }
    // After of_worker(), which needs the worker's place.
    runners.left(worker);
    return decide();
  }
};

bool ClusterJob::handle(const JobEvent& event) { return std::visit(Listener{*this}, event); }

}  // namespace leat
