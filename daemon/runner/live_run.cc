#include "daemon/runner/live_run.h"

#include <algorithm>
#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "devices/core/lost_device.h"
#include "scheduler/runtime/profile.h"

namespace leat {

LiveRun::LiveRun(RunnerParts& parts, uint64_t assembly, const RunPart& part,
                 std::shared_ptr<HostedPartition> run, std::vector<Link*> links,
                 std::shared_ptr<const EndCause> cause)
    : parts_(parts),
      assembly_(assembly),
      part_(part),
      run_(std::move(run)),
      links_(std::move(links)),
      cause_(std::move(cause)),
      log_(parts.host, *run_, parts.news) {}

std::string LiveRun::subject() const { return cat("run ", part_.run); }

void LiveRun::start() {
  log_.start();
  parts_.host.start(*run_);
}

// --- Steps.

Status LiveRun::set_feed(uint32_t index, const Bytes& value) const {
  const std::vector<PlanBorder>& feeds = run_->plan().feeds;
  if (index >= feeds.size()) {
    return invalid_argument(
        cat(subject(), ": feed ", index, ": expected one of ", feeds.size(), " feeds"));
  }
  const PlanBorder& feed = feeds[index];
  // The size comes from the network, so it must fit exactly before it is copied.
  const auto bytes =
      checked_mul(feed.shape.elements(), static_cast<int64_t>(dtype_size(feed.dtype)));
  if (!bytes || value.size() != static_cast<uint64_t>(*bytes)) {
    return invalid_argument(cat(subject(), ": feed '", feed.name, "': expected ",
                                bytes ? cat(*bytes) : "over 2^63", " bytes, received ",
                                value.size()));
  }
  LEAT_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::create(feed.dtype, feed.shape));
  if (!value.empty()) std::memcpy(tensor.raw(), value.data(), value.size());
  return run().set_feed(index, tensor);
}

Status LiveRun::extend(uint64_t limit, const std::vector<std::pair<uint32_t, Bytes>>& feeds) {
  LEAT_RETURN_IF_ERROR(run().status());
  {
    std::lock_guard lock(mutex_);
    // A repeated or an overtaken call changes nothing, and its feeds were set before.
    if (limit <= wanted_) return {};
  }
  // A step that is under way reads the feeds, so they may change only between steps.
  if (!feeds.empty() && !log_.idle())
    return failed_precondition(cat(subject(), ": expected no feeds while it steps"));
  for (const auto& [index, value] : feeds) LEAT_RETURN_IF_ERROR(set_feed(index, value));
  {
    std::lock_guard lock(mutex_);
    wanted_ = std::max(wanted_, limit);
    limit = std::min(wanted_, gate_);
  }
  log_.grant(limit);
  return {};
}

uint64_t LiveRun::hold() {
  const uint64_t limit = log_.hold();
  std::lock_guard lock(mutex_);
  return wanted_ = limit;
}

void LiveRun::fence(uint64_t limit) {
  {
    std::lock_guard lock(mutex_);
    wanted_ = limit;
    limit = std::min(limit, gate_);
  }
  // The gate counts here, too: a fault that is due has to happen before the step behind it.
  log_.fence(limit);
}

void LiveRun::set_gate(uint64_t step) {
  uint64_t limit;
  {
    std::lock_guard lock(mutex_);
    gate_ = step;
    limit = std::min(wanted_, gate_);
  }
  log_.grant(limit);
}

Status LiveRun::await_step(uint64_t step, std::chrono::steady_clock::time_point deadline) {
  // `finished` counts the turns of this run, and the caller the steps of the job.
  const uint64_t first = run().options().first_step;
  return run().finished().wait(step > first ? step - first : 0, deadline);
}

Status LiveRun::feed(uint32_t index, const Bytes& value) {
  if (!log_.idle()) return failed_precondition(cat(subject(), ": expected no feed while it steps"));
  return set_feed(index, value);
}

Status LiveRun::renumber(uint64_t step) {
  if (!log_.idle())
    return failed_precondition(cat(subject(), ": expected no new number while it steps"));
  run().renumber(step);
  return {};
}

Status LiveRun::between_steps(uint64_t step, std::function<void()> between) {
  return parts_.host.between_steps(*run_, step, std::move(between));
}

// --- The end.

void LiveRun::end() { run().abort(cause_->get()); }

void LiveRun::release() { parts_.host.release(*run_); }

void LiveRun::heed_links() {
  // With this failpoint, tests keep the runner from seeing failed links.
  if (!LEAT_FAILPOINT("runner/heed_links").ok()) return;
  for (const Link* link : links_) {
    const Status status = link->status();
    if (status.ok()) continue;
    run().abort(status);
    tell_of(*link);
  }
}

// Reports a failed link once. Two kinds of failure are not reported: a peer that has finished all
// steps may close the link, and so may the peers of a run that is to end. A run that was ended
// because of this very link is an exception: the link is the cause.
void LiveRun::tell_of(const Link& link) {
  const bool steps = run().options().first_step + run().turns() < log_.granted();
  if (link.fault() == LinkFault::none || !steps || !parts_.on_failed_link) return;
  const std::string how = link.status().message();
  const bool ended_it = run().status().message().find(how) != std::string::npos;
  if (!cause_->get().ok() && !ended_it) return;
  {
    std::lock_guard lock(mutex_);
    if (!told_of_.insert(link.peer()).second) return;
  }
  parts_.on_failed_link({assembly_, link.peer(), link.fault(), how});
}

// --- What is told.

uint64_t LiveRun::turns() const { return run().turns(); }

LinkCounters LiveRun::traffic() const {
  LinkCounters sum;
  for (const Link* link : links_) sum += link->counters();
  return sum;
}

uint64_t LiveRun::tiles_done() const { return run().options().endless ? 0 : run().work().tiles; }

bool LiveRun::stepping() const { return !run().options().endless && !log_.idle(); }

Status LiveRun::settle(Deadline deadline) const {
  if (run().options().endless) return {};
  const Status status =
      run().finished().wait(log_.granted() - run().options().first_step, deadline);
  if (run().finished().failed() || status.ok()) return {};
  return deadline_exceeded(cat(subject(), ": expected its allowed steps to be finished, it is ",
                               waits_for().empty() ? "computing" : waits_for()));
}

std::string LiveRun::waits_for() const { return parts_.host.waits_for(*run_); }

RunStanding LiveRun::standing() {
  RunStanding standing;
  standing.sight = parts_.host.sight(*run_);
  standing.now_ns = StepRecorder::now();
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  // A kernel that waits, and one that takes long, leave both numbers as they are. They only rise:
  // a lower one is from a thread that looked before the last one and came here after it.
  if (standing.sight.finished > change_.turns || standing.sight.tiles > change_.tiles) {
    change_ = {std::max(change_.turns, standing.sight.finished),
               std::max(change_.tiles, standing.sight.tiles), now};
  }
  standing.unchanged_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now - change_.at).count());
  return standing;
}

bool LiveRun::waits_for_peer() const { return parts_.host.waits_for_peer(*run_); }

std::string LiveRun::profile() const { return profile_text(run().program()); }

bool LiveRun::take_report(RunReport& report, size_t most) {
  report.part = part_;
  const RunWork work = run().work();
  report.input_wait_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(work.input_wait).count());
  report.steps_ahead = work.steps_ahead;
  if (!log_.take(report, most)) return false;
  if (!report.failure.ok()) {
    report.derived = derived(report.failure);
    // The log of the runner that knows the cause has the error; the others would only repeat it.
    parts_.log.log(report.derived ? LogLevel::debug : LogLevel::error,
                   cat(subject(), " failed: ", report.failure.message()));
    if (is_of_device(report.failure) && parts_.on_failed_device)
      parts_.on_failed_device(report.failure);
  }
  return true;
}

// The run calls the failure of its device unavailable.
bool LiveRun::is_of_device(const Status& failure) const {
  return failure.code() == Code::unavailable && is_lost(parts_.host.device(run_->device()));
}

// The failure came from elsewhere if it is the cause that the run was ended with, or if it is what
// a peer told over a link: a link's status begins with "worker-1 failed: " in that case alone.
bool LiveRun::derived(const Status& failure) const {
  const Status cause = cause_->get();
  if (!cause.ok() && failure.message() == cause.message()) return true;
  for (const Link* link : links_) {
    const std::string told = link->status().message();
    if (told.starts_with(link->peer() + " failed: ") &&
        failure.message().find(told) != std::string::npos)
      return true;
  }
  return false;
}

}  // namespace leat
