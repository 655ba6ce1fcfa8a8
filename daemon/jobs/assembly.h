// The runners of a job, one on each of its workers: which ones were asked to start, are there, or
// are gone. A runner may outlive its assembly: when an assembly ends for a temporary cause, the
// runners that are there are kept, each with its task. The next assembly begins with them, and with
// new runners in the places of those that are gone. It may have fewer or more places than the
// assembly before.
//
//   leased ──► asked ──► there          leased, asked, there ──► gone
//     ▲                    │
//     └── the next assembly ──┘
//
// A runner that must end while others are kept is *leaving*: its place is free at once, and the
// lease of its worker ends when the runner is gone.
//
// Threads: one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/jobs/leases.h"
#include "devices/base/clock.h"

namespace leat {

class Assembly {
 public:
  // The runners that are to end, for the caller to act.
  struct Leaving {
    std::vector<WorkerRef> tell;      // to be told to stop; gone when their processes are
    std::vector<WorkerRef> released;  // gone already, since no process runs there
  };
  // A runner that is asked to join the assembly.
  struct Asked {
    WorkerRef worker;
    bool kept = false;  // the runner is there already, from an earlier assembly
  };

  enum class Mode : uint8_t {
    going,     // an assembly gathers its runners, or runs; also the mode of a new job
    parted,    // the assembly is over; the runners that are there are kept for the next one
    stopping,  // no runner is kept
  };
  // The workers whose deadline is over.
  struct Late {
    std::vector<WorkerRef> to_come;  // their runners are not there yet
    std::vector<WorkerRef> to_go;    // their runners are not gone yet
  };

  // 0: none yet.
  uint64_t assembly() const { return assembly_; }
  // Leaving runners count, too.
  bool all_gone() const { return leaving_.empty() && count(Phase::gone) == members_.size(); }
  // False without members.
  bool all_there() const { return !members_.empty() && count(Phase::there) == members_.size(); }
  bool is_leased() const { return count(Phase::leased) > 0; }
  // The workers by task, also of runners that are gone.
  std::vector<WorkerRef> workers() const;

  Mode mode() const { return mode_; }
  // True if the next assembly may begin: no runner is on its way.
  bool may_renew() const { return mode_ == Mode::parted ? count(Phase::asked) == 0 : all_gone(); }
  // The number of kept runners, once none is on its way.
  size_t kept() const { return mode_ == Mode::parted ? count(Phase::there) : 0; }

  // Begins an assembly of `size` tasks with the kept runners, and with the workers `joining` in the
  // free places: a worker gets the place that a worker of its name had, the others follow in order.
  // A kept runner gets another task only if its own is not below `size`. REQUIRES: may_renew(), and
  // kept() plus the number of `joining` is `size`.
  void renew(uint64_t assembly, std::span<const WorkerRef> joining, size_t size);
  // Continues an assembly whose runners outlived the master: all places are free until a runner is
  // awaited there. REQUIRES: no runner is there.
  void take_up(uint64_t assembly, std::span<const std::string> names);
  // A runner of that assembly is on its way to the place `task`. Returns false if the place belongs
  // to another worker, or is not free.
  bool await(const WorkerRef& worker, size_t task, Clock::Steady deadline);
  // Adds a leaving runner: it is of an earlier assembly, still there, and was told to stop.
  void expel(const WorkerRef& worker, uint64_t assembly, Clock::Steady deadline);
  // The number of tasks of this assembly, or of the last one.
  size_t size() const { return members_.size(); }
  // The names of the workers whose places are free.
  std::vector<std::string> vacant() const;
  // Cancels an assembly that renew() began; `before` is the last assembly again. Returns the
  // workers that had joined, which are released. REQUIRES: no runner was asked.
  std::vector<WorkerRef> undo(uint64_t before);

  // Asks all leased workers for their runners, which must be there by `deadline`. By task.
  std::vector<Asked> ask(Clock::Steady deadline);
  // The runner is there. Returns false if none is expected on that worker.
  bool arrived(const WorkerRef& worker, uint64_t assembly);
  // True if a message that names that worker and assembly is about a runner that is not gone. Until
  // a kept runner has arrived in the new assembly, messages may name the assembly before.
  bool has(const WorkerRef& worker, uint64_t assembly) const;
  // True if the worker has a place, and its runner is not leaving.
  bool has_place(const WorkerRef& worker) const;
  // True if the worker has a place, and its runner was kept but has not arrived in this assembly.
  bool is_held_over(const WorkerRef& worker) const;
  // True if the runner is there, or was asked to be, and suspect() was not called for it.
  bool will_be_kept(const WorkerRef& worker) const;
  // The runner of that worker will not be kept.
  void suspect(const WorkerRef& worker);
  // The runner is gone. Returns false if it was gone already.
  bool left(const WorkerRef& worker);

  // Ends the assembly. Runners that will not be kept are leaving, and must be gone by `deadline`.
  Leaving part(Clock::Steady deadline);
  // Makes all runners leave. Each is returned in one call only.
  Leaving stop(Clock::Steady deadline);

  Late late(Clock::Steady now) const;

 private:
  enum class Phase : uint8_t { leased, asked, there, gone };
  struct Member {
    WorkerRef worker;
    Phase phase = Phase::leased;
    uint64_t from = 0;                        // the first assembly that its messages may name
    bool lives = false;                       // it has arrived, in this assembly or before
    bool suspect = false;                     // it will not be kept
    bool told = false;                        // it was told to stop
    Clock::Steady by = Clock::Steady::max();  // deadline to be there; if told: to be gone
    bool runs() const { return phase == Phase::asked || lives; }
  };
  size_t count(Phase phase) const;
  // A member that is not gone; null if there is none.
  Member* find(const WorkerRef& worker);
  const Member* find(const WorkerRef& worker) const;
  void tell(Member& member, Clock::Steady deadline, Leaving& leaving);

  uint64_t assembly_ = 0;
  Mode mode_ = Mode::going;
  std::vector<Member> members_;  // by task
  std::vector<Member> leaving_;  // from earlier assemblies
};

}  // namespace leat
