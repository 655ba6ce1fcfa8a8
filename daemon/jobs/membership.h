// Which workers the cluster has, and whether they live: pure logic over the time given in calls.
//
// A worker registers with its name and the incarnation of its process, says every 250 ms that it
// lives and how far it came, and is lost when its connection closes, when it was silent for 2.5 s,
// or when it is expelled. A lost incarnation never comes back: the process has to start anew, with
// a new one, and everything that the old one still says is refused by name. So a stopped process
// that wakes after its work was given to others does no harm.
//
// A worker is stuck when a step is in flight and neither the counter of its steps nor that of its
// work has moved for 10 of its usual steps, 10 s at least: a step may take as long as it likes,
// while something is computed. Where one stands still so do its peers, but those wait: who computes
// is stuck, and who waits only after half that time again, when nobody was found who computes. It
// moves: it is well again.
//
// One that was not heard of for half a second may only be late. It is said all the same: whoever
// judges a failure then waits until more is known.
//
// A master that was itself stopped, or starved, has heard nobody: a gap between two ticks is not
// counted against the workers.
//
// What happens to a worker comes back as events for the table of jobs, to be handed to it in order.
//
// Threads: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/events.h"

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
};

struct Heartbeat {
  WorkerRef worker;
  uint64_t sequence = 0;  // rises; older ones are of no use
  uint64_t progress = 0;  // rises with every step, or op, of the worker's runner
  bool stepping = false;  // a step is in flight
  bool waits = false;     // all that are in flight wait for peers
  bool quiet = false;     // a runner has given no sign of life for a while
  uint64_t work = 0;      // changes while the runner computes, also within a step
};

enum class WorkerState : uint8_t { ready, draining, stuck, lost };
std::string_view name_of(WorkerState state);  // "READY"

struct WorkerView {
  WorkerInfo info;
  WorkerState state = WorkerState::ready;
  std::string reason;    // of the state, for people; may be empty
  int64_t since_ms = 0;  // of the state
  std::chrono::milliseconds silent{0};
  uint64_t progress = 0;
};

struct MembershipLimits {
  std::chrono::milliseconds heartbeat{250};  // what workers are told
  // Nobody takes a name from a worker that was heard of in this time.
  std::chrono::milliseconds suspect{1000};
  std::chrono::milliseconds silent{500};  // is told
  std::chrono::milliseconds dead{2500};
  int stuck_steps = 10;
  std::chrono::milliseconds stuck{10000};
  size_t max_workers = 256;                              // that live
  std::chrono::milliseconds remember{24 * 3600 * 1000};  // those that were lost
};

class Membership {
 public:
  using Events = std::vector<JobEvent>;

  explicit Membership(const MembershipLimits& limits) : limits_(limits) {}

  // A worker registers, or repeats that it does. Another incarnation of its name that lives no more
  // than `suspect` is lost by this. failed_precondition if the name is in use or the incarnation
  // was lost; invalid_argument, resource_exhausted for what no cluster accepts.
  Result<Events> join(const WorkerInfo& info, Moment now);
  // failed_precondition, with the reason, if that incarnation is not (or no longer) a member: it
  // has to stop its runners and start anew.
  Status heard(const Heartbeat& heartbeat, Moment now);
  // What heard() would say to any other message of that worker.
  Status check(const WorkerRef& worker) const;
  // The worker's connection has closed, or it is expelled. Nothing if it is not a member.
  Events lose(const WorkerRef& worker, const std::string& reason, Moment now);
  // Processes of that name get no leases from now on, also those to come, or get them again.
  // failed_precondition if none is known; to undo it there need not be one.
  Result<Events> drain(std::string_view name, bool draining, Moment now);
  // Of an earlier master: before anybody joins.
  void drain_names(std::set<std::string, std::less<>> names) { drained_ = std::move(names); }
  // That process alone gets no lease any more: it is about to end.
  Result<Events> retire(const WorkerRef& worker, Moment now);
  // Several times a second.
  Events tick(Moment now);

  // Counts changes: who joined, who was lost.
  uint64_t version() const { return version_; }
  // By name; those that were lost too.
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
    int64_t since_ms = 0;
    Clock::Steady heard_at;  // of the last heartbeat; when lost, of that
    uint64_t sequence = 0;

    uint64_t progress = 0;
    bool stepping = false, waits = false;
    bool quiet = false;   // a runner of it, as it says
    bool silent = false;  // as was told
    uint64_t work = 0;
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
