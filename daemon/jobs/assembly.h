// The runners of a job, one on each of its workers: which were asked to start, which are there,
// which are gone. A runner may outlive its assembly: when an assembly ends for a cause that may
// pass, the runners that are there are kept, each with its task. The next assembly begins with
// them, and with new runners in the places of those that are gone. It may have fewer places than
// the one before, or more.
//
//   leased ──► asked ──► there          leased, asked, there ──► gone
//     ▲                    │
//     └── the next assembly ──┘
//
// A runner that has to go while others are kept leaves: its place is free at once, and its worker's
// lease ends when it is gone.
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
  // What the caller has to do about runners that are to go.
  struct Leaving {
    std::vector<WorkerRef> tell;      // to stop: they are gone when their processes are
    std::vector<WorkerRef> released;  // no process runs there: they are gone
  };
  // A runner that is asked to be there.
  struct Asked {
    WorkerRef worker;
    bool kept = false;  // its runner is there already, of an earlier assembly
  };

  enum class Mode : uint8_t {
    going,     // an assembly is being assembled, or goes on; the mode of a job without assemblies
    parted,    // the assembly is over, and the runners that are there are kept for the next
    stopping,  // no runner is kept
  };
  // The workers whose deadline is over.
  struct Late {
    std::vector<WorkerRef> to_come;  // their runners are not there yet
    std::vector<WorkerRef> to_go;    // their runners are not gone yet
  };

  // 0: none yet.
  uint64_t assembly() const { return assembly_; }
  // Those that leave count, too.
  bool all_gone() const { return leaving_.empty() && count(Phase::gone) == members_.size(); }
  // False without members.
  bool all_there() const { return !members_.empty() && count(Phase::there) == members_.size(); }
  bool is_leased() const { return count(Phase::leased) > 0; }
  // By task, with those that are gone.
  std::vector<WorkerRef> workers() const;

  Mode mode() const { return mode_; }
  // The next assembly may begin: no runner is on its way.
  bool may_renew() const { return mode_ == Mode::parted ? count(Phase::asked) == 0 : all_gone(); }
  // The number of kept runners, once none is on its way.
  size_t kept() const { return mode_ == Mode::parted ? count(Phase::there) : 0; }

  // Begins an assembly with the kept runners and with `joining` in the free places: each where a
  // worker of its name was before, the others in their order. A kept runner gets another task only
  // if its own is none of the `size` tasks that there are now. REQUIRES: may_renew(), and kept()
  // and `joining` are `size` together.
  void renew(uint64_t assembly, std::span<const WorkerRef> joining, size_t size);
  // Takes up an assembly that went on while the master was away: all places are free until a runner
  // is awaited there. REQUIRES: no runner is there.
  void take_up(uint64_t assembly, std::span<const std::string> names);
  // A runner of that assembly is on its way to its place. False if the place is not its own, or not
  // free.
  bool await(const WorkerRef& worker, size_t task, Clock::Steady deadline);
  // A runner of an earlier assembly is still there, and was told to stop.
  void expel(const WorkerRef& worker, uint64_t assembly, Clock::Steady deadline);
  // The number of tasks of the assembly, or of the last one.
  size_t size() const { return members_.size(); }
  // The names of the workers whose places are free.
  std::vector<std::string> vacant() const;
  // The assembly does not begin after all, and `before` is still the last one. Returns the workers
  // that had joined: they are released. REQUIRES: no runner was asked.
  std::vector<WorkerRef> undo(uint64_t before);

  // Asks all leased ones: they have until `deadline` to be there. By task.
  std::vector<Asked> ask(Clock::Steady deadline);
  // False if no runner is expected there.
  bool arrived(const WorkerRef& worker, uint64_t assembly);
  // True if a message about a runner of that assembly is about one that is not gone. Until a kept
  // runner has arrived in the new assembly, messages with the assembly before are about it, too.
  bool has(const WorkerRef& worker, uint64_t assembly) const;
  // The worker has a place, and does not leave.
  bool has_place(const WorkerRef& worker) const;
  // The worker has a place, and its runner was kept and has not yet arrived in this assembly.
  bool is_held_over(const WorkerRef& worker) const;
  // The runner is, or was asked to be, there, and it is not under suspicion.
  bool will_be_kept(const WorkerRef& worker) const;
  // Its runner will not be kept.
  void suspect(const WorkerRef& worker);
  // The runner is gone. False if it already was.
  bool left(const WorkerRef& worker);

  // The assembly is over. Runners under suspicion leave, and have until `deadline` to be gone.
  Leaving part(Clock::Steady deadline);
  // All runners leave; each is told once.
  Leaving stop(Clock::Steady deadline);

  Late late(Clock::Steady now) const;

 private:
  enum class Phase : uint8_t { leased, asked, there, gone };
  struct Member {
    WorkerRef worker;
    Phase phase = Phase::leased;
    uint64_t from = 0;                        // the first assembly that its messages may name
    bool lives = false;                       // it has arrived, in this assembly or in one before
    bool suspect = false;                     // will not be kept
    bool told = false;                        // to stop
    Clock::Steady by = Clock::Steady::max();  // to be there; to be gone, if told
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
  std::vector<Member> leaving_;  // of earlier assemblies
};

}  // namespace leat
