#include "daemon/runner/run_table.h"

#include <algorithm>
#include <atomic>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::chrono::seconds kSettleDeadline{30};
// A bound on the table in case runs are prepared and never released.
constexpr size_t kMostRuns = 4096;

}  // namespace

RunTable::RunTable(RunnerParts& parts, ControlThreads& control, ControlThreads::Strand job_strand)
    : parts_(parts),
      control_(control),
      job_strand_(std::move(job_strand)),
      assembly_(parts.config.assembly) {}

Result<std::shared_ptr<HostedRun>> RunTable::expect(const RunPart& run,
                                                    const Sha256Digest& digest) {
  std::lock_guard lock(mutex_);
  if (!stopped_.ok()) return stopped_;
  // A run that was made now would belong to the old assembly, and advance() would not see it.
  if (advancing_ > 0)
    return failed_precondition(
        cat("run ", run.run, ": expected none on the way to another assembly"));
  const auto found = runs_.find(run);
  if (found != runs_.end()) {
    if (found->second->expects(digest)) return found->second;
    return failed_precondition(
        cat("run ", run.run, ": expected the plan that it has, received another"));
  }
  if (runs_.size() >= kMostRuns)
    return resource_exhausted(cat("run ", run.run, ": expected at most ", kMostRuns, " runs"));
  // The partitions of a run that are on this runner push to each other without a link.
  const auto sibling = [this,
                        id = run.run](uint32_t partition) -> std::shared_ptr<HostedPartition> {
    const auto found = find({id, partition});
    return found.ok() ? (*found)->partition() : nullptr;
  };
  auto made =
      std::make_shared<HostedRun>(parts_, control_.strand(), assembly_, run, digest, sibling);
  runs_.emplace(run, made);
  return made;
}

Result<std::shared_ptr<HostedRun>> RunTable::find(const RunPart& run) const {
  std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  if (found != runs_.end()) return found->second;
  return failed_precondition(cat("run ", run.run, ": expected one that was prepared"));
}

Result<std::shared_ptr<LiveRun>> RunTable::find_live(const RunPart& run) const {
  LEAT_ASSIGN_OR_RETURN(const auto found, find(run));
  return found->live();
}

std::vector<std::shared_ptr<HostedRun>> RunTable::runs() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<HostedRun>> out;
  for (const auto& [part, run] : runs_) out.push_back(run);
  return out;
}

void RunTable::abort(const RunPart& run, const Status& cause, Done done) {
  const auto found = find(run);
  if (!found.ok()) return done({});
  // The cause is set at once, so that a connect() that blocks the strand ends, and the strand gets
  // to the end of the run.
  (*found)->cancel(cause);
  (*found)->strand().post([run = *found, done = std::move(done)] {
    run->end();
    done({});
  });
}

void RunTable::release(const RunPart& part, Done done) {
  const auto found = find(part);
  if (!found.ok()) return done({});
  (*found)->cancel(cancelled(cat("run ", part.run, " was released")));
  (*found)->strand().post([this, part, run = *found, done = std::move(done)] {
    // The run stays in the table until its release is done, so that a repeated call waits for it on
    // the strand.
    run->release();
    {
      std::lock_guard lock(mutex_);
      if (runs_.erase(part) > 0) {
        const HostedRun::Work work = run->work();
        released_.turns += work.turns;
        released_.traffic += work.traffic;
      }
      more_than_variables_ = more_than_variables_ || run->keeps_more_than_variables();
    }
    done({});
  });
}

// --- Assemblies.

RunnerAssembly RunTable::assembly() const {
  std::lock_guard lock(mutex_);
  return assembly_;
}

std::vector<PlanDevice> RunTable::devices() const {
  std::lock_guard lock(mutex_);
  return parts_.host.plan_devices();
}

void RunTable::advance(const RunnerAssembly& to, Done done) {
  Status refused;
  bool is_there = false;
  {
    std::lock_guard lock(mutex_);
    // From here on no run is made. A call for an earlier assembly than one that has been asked for
    // comes too late.
    refused = stopped_;
    if (to.number < std::max(assembly_.number, advancing_)) {
      refused = failed_precondition(cat("advance to assembly ", to.number, ": expected one after ",
                                        std::max(assembly_.number, advancing_)));
    }
    // A repeated call does not end the runs that have come since.
    is_there = advancing_ == 0 && to.number == assembly_.number;
    if (refused.ok() && !is_there) advancing_ = to.number;
  }
  if (!refused.ok() || is_there) return done(refused);
  const auto left = runs();
  // Counts those that are not released yet, and this call.
  const auto waits = std::make_shared<std::atomic<size_t>>(left.size() + 1);
  const Done one_less = [this, waits, to, done = std::move(done)](const Status&) {
    if (waits->fetch_sub(1) > 1) return;
    job_strand_.post([this, to, done] {  // after the calls for the variables that came before
      become(to);
      done({});
    });
  };
  // The runs are released at the same time, each on its own strand. The last one goes on to
  // become().
  for (const auto& run : left) {
    run->cancel(cancelled(cat("the job goes on in assembly ", to.number)));
    release(run->part(), one_less);
  }
  one_less({});
}

void RunTable::become(const RunnerAssembly& assembly) {
  std::lock_guard lock(mutex_);
  // Queues and counters are of no use after a failure, so the whole state of the job is dropped.
  if (std::exchange(more_than_variables_, false)) parts_.host.drop(parts_.config.job);
  if (assembly.number < assembly_.number) return;  // overtaken
  // The host gets its new task before peers of the assembly are let in.
  assembly_ = assembly;
  parts_.host.become(static_cast<int>(assembly.task));
  if (advancing_ == assembly.number) advancing_ = 0;
  parts_.threads.arrivals.advance(assembly);
}

Status RunTable::settle() const {
  const Deadline deadline = std::chrono::steady_clock::now() + kSettleDeadline;
  for (const auto& run : runs()) {
    if (const auto live = run->live_or_null()) LEAT_RETURN_IF_ERROR(live->settle(deadline));
  }
  return {};
}

RunnerPulse RunTable::pulse() const {
  RunnerPulse pulse;
  pulse.host = parts_.memory.on_host();
  pulse.accelerators = parts_.memory.on_accelerators();
  std::lock_guard lock(mutex_);
  pulse.turns = released_.turns;
  pulse.traffic = released_.traffic;
  for (const auto& [part, run] : runs_) {
    const HostedRun::Work work = run->work();
    pulse.turns += work.turns;
    pulse.traffic += work.traffic;
    const auto live = run->live_or_null();
    if (!live) continue;
    pulse.tiles += live->tiles_done();
    (void)live->standing();  // so that it notices since when nothing changes
    if (!live->stepping()) continue;
    // One run that computes counts more than others that wait, and a run that waits counts more
    // than idle ones.
    if (!live->waits_for_peer()) {
      pulse.activity = RunnerActivity::computing;
    } else if (pulse.activity == RunnerActivity::idle) {
      pulse.activity = RunnerActivity::waits_for_peers;
    }
  }
  return pulse;
}

void RunTable::stop(const Status& cause) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_.ok()) stopped_ = cause;
  }
  // expect() makes no run any more, so these are all.
  for (const auto& run : runs()) abort(run->part(), cause, [](const Status&) {});
}

}  // namespace leat
