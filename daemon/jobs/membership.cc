#include "daemon/jobs/membership.h"

#include <algorithm>
#include <utility>

#include "daemon/jobs/grammar.h"
#include "devices/base/seconds_text.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// In the order of WorkerState.
constexpr std::string_view kWorkerStateNames[] = {"READY", "DRAINING", "STUCK", "LOST"};
// Limits on one registration: a worker that breaks them is refused before it takes memory.
constexpr size_t kMaxDevices = 64;
constexpr size_t kMaxDatasets = 1024;
constexpr size_t kMaxRunners = 1024;
// Old incarnations of a name that are remembered, so that a message of theirs is refused by name.
constexpr size_t kLostKept = 16;
constexpr char kGetsNoJobs[] = "gets no new jobs";
constexpr size_t kMaxDrained = 4096;  // names
constexpr double kNewBeat = 0.025;    // weight of the newest heartbeat in the share of waiting
constexpr double kNewStep = 0.2;      // weight of the newest step in the usual one
constexpr double kPatienceOfWaits = 1.5;

std::chrono::milliseconds since(Clock::Steady then, Moment now) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now.steady - then);
}

Status check_info(const WorkerInfo& info) {
  const std::string& name = info.worker.name;
  if (!is_worker_name(name)) {
    return invalid_argument(
        cat("register: expected a worker's name of at most 64 letters, digits, "
            "'-', '_' and '.', a letter or digit first, received ",
            quoted_start(name)));
  }
  if (info.worker.incarnation == 0) {
    return invalid_argument(cat("worker '", name, "': expected an incarnation, received 0"));
  }
  if (info.devices.empty() || info.devices.size() > kMaxDevices) {
    return invalid_argument(cat("worker '", name, "': expected 1 to ", kMaxDevices,
                                " devices, received ", info.devices.size()));
  }
  if (info.datasets.size() > kMaxDatasets) {
    return invalid_argument(cat("worker '", name, "': expected at most ", kMaxDatasets,
                                " data sets, received ", info.datasets.size()));
  }
  if (info.runners.size() > kMaxRunners) {
    return invalid_argument(cat("worker '", name, "': expected at most ", kMaxRunners,
                                " runners, received ", info.runners.size()));
  }
  return {};
}

}  // namespace

std::string_view name_of(WorkerState state) {
  return kWorkerStateNames[static_cast<size_t>(state)];
}

// A worker that is stuck and drains shows as stuck, which is the more urgent of the two.
WorkerState Membership::Member::state() const {
  if (!alive) return WorkerState::lost;
  if (stuck) return WorkerState::stuck;
  return draining || retires ? WorkerState::draining : WorkerState::ready;
}

WorkerShare WorkerInfo::cpu() const {
  WorkerShare share;
  for (const WorkerDevice& device : devices) {
    if (device.kind != "cpu") continue;
    share.cores += device.threads;
    share.memory += device.memory_bytes;
  }
  return share;
}

Result<Membership::Events> Membership::join(const WorkerInfo& info, Moment now) {
  LEAT_RETURN_IF_ERROR(check_info(info));
  const std::string& name = info.worker.name;
  const uint64_t incarnation = info.worker.incarnation;
  const auto found = members_.find(name);
  Events events;
  if (found != members_.end()) {
    Member& old = found->second;
    // The worker has not heard the answer to its first registration, and asks again.
    if (old.alive && old.info.worker == info.worker) return events;  // repeated
    if (std::find(old.lost.begin(), old.lost.end(), incarnation) != old.lost.end()) {
      return check(info.worker);
    }
    // Two machines may have been given one name. The second of them must not push the first one out
    // while that one still sends heartbeats.
    const auto silent = now.steady - old.heard_at;
    if (old.alive && silent < limits_.suspect) {
      return failed_precondition(cat("worker '", name, "': the name is in use at ",
                                     old.info.address, ", heard of ", seconds_text(silent),
                                     " ago; expected another name, or that worker to be stopped"));
    }
  }
  // A worker that takes the place of a dead one of its name does not count against the limit.
  const bool replaces = found != members_.end() && found->second.alive;
  if (!replaces && living() >= limits_.max_workers) {
    return resource_exhausted(cat("worker '", name, "': expected at most ", limits_.max_workers,
                                  " workers in this cluster, and there are ", living()));
  }
  if (replaces) lost(found->second, "another process of that name has joined", now, events);
  Member fresh;
  fresh.info = info;
  fresh.alive = true;
  fresh.heard_at = fresh.moved_at = fresh.stepped_at = now.steady;
  fresh.since_ms = now.wall_ms;
  // The lost incarnations belong to the name and go on to the new process; everything else is new.
  if (found != members_.end()) fresh.lost = std::move(found->second.lost);
  members_[name] = std::move(fresh);
  ++version_;
  const auto gpus = std::count_if(info.devices.begin(), info.devices.end(),
                                  [](const WorkerDevice& device) { return device.kind != "cpu"; });
  const WorkerShare cpu = info.cpu();
  events.push_back(WorkerJoined{info.worker, info.runners, info.datasets,
                                static_cast<uint32_t>(gpus), cpu.cores, cpu.memory});
  Member& member = members_[name];
  // A drain is of the name. It follows the join as an event of its own, because the table must know
  // the worker first.
  if ((member.draining = drained_.contains(name))) drains(member, kGetsNoJobs, now, events);
  return events;
}

Status Membership::check(const WorkerRef& worker) const {
  const auto found = members_.find(worker.name);
  if (found == members_.end()) {
    return failed_precondition(
        cat("worker '", worker.name, "' is not a member of this cluster: expected it to register"));
  }
  const Member& member = found->second;
  if (member.info.worker == worker) {
    if (member.alive) return {};
    return failed_precondition(cat("worker '", worker.name, "' was lost: ", member.reason,
                                   "; expected it to start anew, with a new incarnation"));
  }
  return failed_precondition(cat("worker '", worker.name, "': received a message of incarnation ",
                                 worker.incarnation, ", expected one of ",
                                 member.info.worker.incarnation, ", which replaced it"));
}

Status Membership::heard(const Heartbeat& heartbeat, Moment now) {
  LEAT_RETURN_IF_ERROR(check(heartbeat.worker));
  Member& member = members_.find(heartbeat.worker.name)->second;
  // A late heartbeat must not move the time of the last sign of life.
  if (heartbeat.sequence <= member.sequence) return {};  // late, or sent twice
  member.sequence = heartbeat.sequence;
  member.heard_at = now.steady;
  note_progress(member, heartbeat, now);
  return {};
}

void Membership::note_progress(Member& member, const Heartbeat& heartbeat, Moment now) {
  const bool moved = heartbeat.progress != member.progress;
  // A counter that falls is that of a new runner, and says nothing of how long a step takes.
  if (moved && member.stepping && heartbeat.progress > member.progress) {
    const std::chrono::duration<double> time = now.steady - member.stepped_at;
    // Several steps may lie between two heartbeats; the mean of them counts as one.
    const auto step = time / static_cast<double>(heartbeat.progress - member.progress);
    member.usual_step =
        member.usual_step ? *member.usual_step * (1 - kNewStep) + step * kNewStep : step;
  }
  // Time between jobs is not time in a step, so it never counts as standing still.
  const bool idle = !member.stepping || !heartbeat.stepping;
  if (moved || idle) member.stepped_at = now.steady;
  if (moved || idle || heartbeat.work != member.work) {
    member.moved_at = now.steady;
    if (member.stuck) {
      member.stuck = false;
      changed(member, member.drain_reason, now);
    }
  }
  member.progress = heartbeat.progress;
  member.work = heartbeat.work;
  member.stepping = heartbeat.stepping;
  member.waits = heartbeat.waits;
  member.quiet = heartbeat.quiet;
  member.traffic = heartbeat.traffic;
  member.usage = heartbeat.usage;
  member.recent.add(heartbeat.usage, now.steady, now.wall_ms);
  if (heartbeat.stepping) {
    const double now_waits = heartbeat.waits ? 1 : 0;
    member.waiting = member.waiting.value_or(now_waits) * (1 - kNewBeat) + now_waits * kNewBeat;
  } else {
    member.waiting.reset();
  }
}

void Membership::note_silence(Member& member, bool silent, Events& events) {
  if (std::exchange(member.silent, silent) == silent) return;
  events.push_back(WorkerSilent{member.info.worker, silent});
}

std::chrono::duration<double> Membership::patience(const Member& member) const {
  std::chrono::duration<double> patience = limits_.stuck;
  if (member.usual_step) {
    // The limit grows with slow steps and never shrinks below limits_.stuck.
    patience = std::max(patience, *member.usual_step * static_cast<double>(limits_.stuck_steps));
  }
  return member.waits ? patience * kPatienceOfWaits : patience;
}

Membership::Events Membership::lose(const WorkerRef& worker, const std::string& reason,
                                    Moment now) {
  Events events;
  if (check(worker).ok()) lost(members_.find(worker.name)->second, reason, now, events);
  return events;
}

void Membership::lost(Member& member, const std::string& reason, Moment now, Events& events) {
  // Taken before heard_at becomes the time of the loss, from which `remember` counts.
  const auto silent = since(member.heard_at, now);
  member.alive = false;
  member.heard_at = now.steady;
  member.lost.push_back(member.info.worker.incarnation);
  if (member.lost.size() > kLostKept) member.lost.pop_front();
  changed(member, reason, now);
  ++version_;
  events.push_back(WorkerLost{member.info.worker, reason, silent});
}

Result<Membership::Events> Membership::drain(std::string_view name, bool draining, Moment now) {
  const auto found = members_.find(name);
  const bool lives = found != members_.end() && found->second.alive;
  // A drained name may be given back although its worker was never seen by this master: the journal
  // had it.
  if (found == members_.end() && !(drained_.contains(name) && !draining))
    return failed_precondition(cat("there is no worker '", name, "'"));
  if (draining && drained_.size() >= kMaxDrained && !drained_.contains(name)) {
    return resource_exhausted(
        cat("worker '", name, "': expected at most ", kMaxDrained, " drained workers"));
  }
  if (draining) {
    drained_.emplace(name);
  } else {
    drained_.erase(std::string(name));
  }
  Events events;
  // The name is noted, and its next process drains from its first moment.
  if (!lives || found->second.draining == draining) return events;
  Member& member = found->second;
  member.draining = draining;
  // A worker that is about to end gets no leases in any case, so the table hears nothing new.
  if (!member.retires) drains(member, draining ? kGetsNoJobs : "", now, events);
  return events;
}

Result<Membership::Events> Membership::retire(const WorkerRef& worker, Moment now) {
  LEAT_RETURN_IF_ERROR(check(worker));
  Member& member = members_.find(worker.name)->second;
  Events events;
  if (!std::exchange(member.retires, true)) drains(member, "is about to end", now, events);
  return events;
}

void Membership::drains(Member& member, std::string reason, Moment now, Events& events) {
  member.drain_reason = reason;
  // The reason of a stuck worker stays: state() shows it as stuck.
  if (!member.stuck) changed(member, std::move(reason), now);
  events.push_back(WorkerDraining{member.info.worker, member.draining || member.retires});
}

Membership::Events Membership::tick(Moment now) {
  // This comes first: otherwise a master that was stopped for 3 s would lose all its workers at
  // once.
  forgive_own_stall(now);
  Events events;
  for (auto& [name, member] : members_) {
    if (!member.alive) continue;
    const std::chrono::duration<double> silent = now.steady - member.heard_at;
    if (silent >= limits_.dead) {
      lost(member, cat("no heartbeat for ", seconds_text(silent)), now, events);
      continue;
    }
    // A worker that reports a quiet runner counts as silent, too.
    note_silence(member, silent >= limits_.silent || member.quiet, events);
    const std::chrono::duration<double> still = now.steady - member.moved_at;
    if (member.stuck || !member.stepping || still < patience(member)) continue;
    member.stuck = true;
    changed(member,
            cat("no progress for ", seconds_text(still), " after ", member.progress, " steps"),
            now);
    events.push_back(WorkerStuck{member.info.worker, member.reason, since(member.moved_at, now)});
  }
  // Lost workers stay in the list for users, and are forgotten after a day.
  std::erase_if(members_, [&](const auto& each) {
    return !each.second.alive && now.steady - each.second.heard_at >= limits_.remember;
  });
  return events;
}

// Moves the beginning of every silence by the time in which this master could not listen.
void Membership::forgive_own_stall(Moment now) {
  const auto gap = last_tick_ ? now.steady - *last_tick_ : Clock::Steady::duration(0);
  last_tick_ = now.steady;
  // Ticks come several times a second; a gap of a second is a stall of this process.
  if (gap < limits_.suspect) return;
  for (auto& [name, member] : members_) {
    if (!member.alive) continue;
    member.heard_at = std::min(now.steady, member.heard_at + gap);
    member.moved_at = std::min(now.steady, member.moved_at + gap);
    member.stepped_at = std::min(now.steady, member.stepped_at + gap);
  }
}

void Membership::changed(Member& member, std::string reason, Moment now) {
  member.reason = std::move(reason);
  member.since_ms = now.wall_ms;
}

size_t Membership::living() const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(),
                                           [](const auto& each) { return each.second.alive; }));
}

std::vector<WorkerView> Membership::workers(Moment now) const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<WorkerView> views;
  for (const auto& [name, member] : members_) {
    using std::chrono::milliseconds;
    const auto silent = std::chrono::duration_cast<milliseconds>(now.steady - member.heard_at);
    const bool has_time = member.stepping && member.usual_step;
    views.push_back({member.info, member.state(), member.reason, member.since_ms, silent,
                     member.progress, member.traffic, member.usage,
                     member.waiting.value_or(kUnknown),
                     has_time ? member.usual_step->count() : kUnknown, member.recent.points()});
  }
  return views;
}

const WorkerInfo* Membership::find(std::string_view name) const {
  const auto found = members_.find(name);
  return found == members_.end() || !found->second.alive ? nullptr : &found->second.info;
}

}  // namespace leat
