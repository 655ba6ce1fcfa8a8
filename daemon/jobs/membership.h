// The workers of a cluster, and whether they live: pure logic over the time that calls pass in.
//
// A worker registers with its name and the incarnation of its process. Every 250 ms it reports that
// it lives and how far it has come. It is lost when its connection closes, when it was silent for
// 2.5 s, or when it is expelled. A lost incarnation never comes back: the process must start again
// with a new one, and all further messages of the old one are refused. So a stopped process that
// wakes after others got its work does no harm.
//
// A worker is stuck when a step is in flight and neither the counter of its steps nor that of its
// work has moved for 10 of its usual steps, 10 s at least: a step may take as long as it needs,
// while something is computed. When a worker stands still, its peers soon wait for it. So a worker
// that waits counts as stuck only after half that time again, if no computing worker was found by
// then. A worker that moves is no longer stuck.
//
// A worker that was silent for half a second may only be late. The table of jobs learns of it
// anyway, so that it delays its judgement of a failure until more is known.
//
// A master that was itself stopped, or starved of CPU time, has heard no worker: a gap between two
// ticks does not count against the workers.
//
// Changes come back as events for the table of jobs, to be handed to it in order.
//
// Threads: one.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/events.h"
#include "daemon/jobs/usage_history.h"
#include "daemon/jobs/worker_usage.h"
#include "transport/link_counters.h"

namespace leat {

struct WorkerDevice {
  std::string kind;  // "cpu"
  std::string name;  // "cpu:0"
  uint64_t memory_bytes = 0;
  uint32_t threads = 0;
  std::string description;  // the processor's model
};

struct WorkerInfo {
  WorkerRef worker;
  std::string address;  // of its data port, "10.0.0.2:17463"
  std::string machine;  // the kernel's boot id: equal ones share memory
  std::vector<WorkerDevice> devices;
  std::vector<std::string> datasets;  // names, and the paths that they have there; see leases.h
  std::string version;
  std::vector<HeldRunner> runners = {};
  // The threads and the memory of its processor, which jobs may share.
  WorkerShare cpu() const;
};

struct Heartbeat {
  WorkerRef worker;
  uint64_t sequence = 0;      // rises; older ones are of no use
  uint64_t progress = 0;      // rises with every step, or op, of the worker's runner
  bool stepping = false;      // a step is in flight
  bool waits = false;         // all that are in flight wait for peers
  bool quiet = false;         // a runner has given no sign of life for a while
  uint64_t work = 0;          // changes while the runner computes, also within a step
  LinkCounters traffic = {};  // of the worker's runners, since the worker started
  WorkerUsage usage = {};
};

enum class WorkerState : uint8_t { ready, draining, stuck, lost };
inline constexpr std::array<WorkerState, 4> kWorkerStates = {
    WorkerState::ready, WorkerState::draining, WorkerState::stuck, WorkerState::lost};
std::string_view name_of(WorkerState state);  // "READY"

struct WorkerView {
  WorkerInfo info;
  WorkerState state = WorkerState::ready;
  std::string reason;    // of the state, for people; may be empty
  int64_t since_ms = 0;  // of the state
  std::chrono::milliseconds silent{0};
  uint64_t progress = 0;
  LinkCounters traffic = {};  // of its runners, since the worker started
  WorkerUsage usage = {};
  // The share of the last seconds in which its runners only waited for those of other workers, 0 to
  // 1. NaN if no step is in flight. The worker with the lowest share is the slowest of its job.
  double waiting = std::numeric_limits<double>::quiet_NaN();
  // The time of a step of its runners, a moving average, in seconds. NaN if no step is in flight. The
  // share `waiting` of it is communication that no computation hides.
  double step_seconds = std::numeric_limits<double>::quiet_NaN();
  // Of the last half hour; null before there is a point. Only in the master's process.
  std::shared_ptr<const UsagePoints> recent = nullptr;
};

struct MembershipLimits {
  std::chrono::milliseconds heartbeat{250};  // the period that workers use
  // No other process gets the name of a worker that was heard within this time.
  std::chrono::milliseconds suspect{1000};
  std::chrono::milliseconds silent{500};  // after it the table of jobs is told
  std::chrono::milliseconds dead{2500};
  int stuck_steps = 10;
  std::chrono::milliseconds stuck{10000};
  size_t max_workers = 256;                              // live ones
  std::chrono::milliseconds remember{24 * 3600 * 1000};  // lost ones
};

class Membership {
 public:
  using Events = std::vector<JobEvent>;

  explicit Membership(const MembershipLimits& limits) : limits_(limits) {}

  // A worker registers, or repeats its registration. Another incarnation of its name is lost by
  // this if it was silent for `suspect`. failed_precondition if the name is in use or the
  // incarnation was lost; invalid_argument, resource_exhausted for what no cluster accepts.
  Result<Events> join(const WorkerInfo& info, Moment now);
  // failed_precondition, with the reason, if that incarnation is not (or no longer) a member: it
  // has to stop its runners and start anew.
  Status heard(const Heartbeat& heartbeat, Moment now);
  // The same check for any other message of that worker.
  Status check(const WorkerRef& worker) const;
  // The worker's connection has closed, or it is expelled. No events if it is not a member.
  Events lose(const WorkerRef& worker, const std::string& reason, Moment now);
  // Present and future processes of that name get no leases from now on, or get them again.
  // failed_precondition if no such worker is known, unless this undoes an earlier drain.
  Result<Events> drain(std::string_view name, bool draining, Moment now);
  // The names that an earlier master had drained. REQUIRES: no worker has joined.
  void drain_names(std::set<std::string, std::less<>> names) { drained_ = std::move(names); }
  // The process gets no more leases, since it is about to end. Another process of its name may.
  Result<Events> retire(const WorkerRef& worker, Moment now);
  // Several times a second.
  Events tick(Moment now);

  // Counts changes: workers that joined or were lost.
  uint64_t version() const { return version_; }
  // By name, with those that were lost.
  std::vector<WorkerView> workers(Moment now) const;
  // Null if no worker of that name lives.
  const WorkerInfo* find(std::string_view name) const;

 private:
  struct Member {
    WorkerInfo info;
    bool alive = false;
    bool draining = false;
    bool retires = false;
    bool stuck = false;
    std::string reason;
    std::string drain_reason;  // why it is draining, also while it is stuck; "" if it is not
    int64_t since_ms = 0;
    Clock::Steady heard_at;  // of the last heartbeat; when lost, of that
    uint64_t sequence = 0;

    uint64_t progress = 0;
    bool stepping = false, waits = false;
    bool quiet = false;   // a runner on it, as its heartbeat says
    bool silent = false;  // as the table of jobs was told
    uint64_t work = 0;
    LinkCounters traffic;
    WorkerUsage usage;
    UsageHistory recent;
    std::optional<double> waiting;                            // a moving average
    Clock::Steady stepped_at;                                 // when `progress` last changed
    Clock::Steady moved_at;                                   // when it did, or `work`
    std::optional<std::chrono::duration<double>> usual_step;  // a moving average

    std::deque<uint64_t> lost;  // incarnations, the newest last
    WorkerState state() const;
  };

  size_t living() const;
  void forgive_own_stall(Moment now);
  static void note_silence(Member& member, bool silent, Events& events);
  void note_progress(Member& member, const Heartbeat& heartbeat, Moment now);
  std::chrono::duration<double> patience(const Member& member) const;
  static void drains(Member& member, std::string reason, Moment now, Events& events);
  void lost(Member& member, const std::string& reason, Moment now, Events& events);
  static void changed(Member& member, std::string reason, Moment now);

  const MembershipLimits limits_;
  std::map<std::string, Member, std::less<>> members_;
  std::set<std::string, std::less<>> drained_;
  uint64_t version_ = 0;
  std::optional<Clock::Steady> last_tick_;
};

}  // namespace leat
