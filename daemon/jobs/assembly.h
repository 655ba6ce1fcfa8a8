// The runners of a job, one on each of its workers: who was asked to start, who is there, who is
// gone. A runner outlives its assembly: when that ends for a cause that may pass, those that are there
// are kept, each with its task, and the next assembly begins with them and with new ones in the places
// of those that are gone. It may have fewer places than the one before, or more.
//
//   leased ──► asked ──► there          leased, asked, there ──► gone
//     ▲                    │
//     └── the next assembly ──┘
//
// Who has to go while the others are kept leaves: his place is free at once, his worker's lease
// ends when he is gone.
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
  // What somebody has to do about those that are to go.
  struct Leaving {
    std::vector<WorkerRef> tell;      // to stop: they are gone when their process is
    std::vector<WorkerRef> released;  // nothing runs there: they are gone
  };
  // One that is asked to be there; by task.
  struct Asked {
    WorkerRef worker;
    bool kept = false;  // its runner is there already, of an earlier assembly
  };

  Assembly() = default;  // nobody: all are gone

  // 0: none yet.
  uint64_t assembly() const { return assembly_; }
  // Also those that leave.
  bool all_gone() const { return leaving_.empty() && count(Phase::gone) == members_.size(); }
  // Never of nobody.
  bool all_there() const { return !members_.empty() && count(Phase::there) == members_.size(); }
  bool is_leased() const { return count(Phase::leased) > 0; }
  // By task; also of those that are gone.
  std::vector<WorkerRef> workers() const;

  // An assembly is being assembled, or goes on.
  bool is_going() const { return mode_ == Mode::going; }
  // An assembly is over, and those that are there are kept for the next.
  bool is_parted() const { return mode_ == Mode::parted; }
  // Nobody is kept.
  bool is_stopping() const { return mode_ == Mode::stopping; }
  // The next assembly may begin: nobody is on his way.
  bool may_renew() const { return is_parted() ? count(Phase::asked) == 0 : all_gone(); }
  // Those that are kept, once nobody is on his way.
  size_t kept() const { return is_parted() ? count(Phase::there) : 0; }

  // Begins an assembly with those that are kept and with `joining` in the free places: each where one
  // of his name was before, the others in their order. Who is kept has another task only if his is
  // none of the `size` tasks that there are now. REQUIRES: may_renew(), and they are `size`.
  void renew(uint64_t assembly, std::span<const WorkerRef> joining, size_t size);
  // Of an assembly that went on while the master was away: all places are free, until somebody is
  // awaited there. REQUIRES: nobody is there.
  void take_up(uint64_t assembly, std::span<const std::string> names);
  // One of that assembly is on his way to his place. False if the place is not his, or not free.
  bool await(const WorkerRef& worker, size_t task, Clock::Steady deadline);
  // A runner of an earlier assembly is still there, whoever forgot it: it was told to stop.
  void expel(const WorkerRef& worker, uint64_t assembly, Clock::Steady deadline);
  // So many tasks has the assembly, or had the last one.
  size_t size() const { return members_.size(); }
  // The names of those whose places are free.
  std::vector<std::string> vacant() const;
  // The assembly does not begin after all, it is that before still. Who has joined is released.
  // REQUIRES: nobody was asked.
  std::vector<WorkerRef> undo(uint64_t before);

  // All leased ones are asked now, and have until `deadline` to be there. By task.
  std::vector<Asked> ask(Clock::Steady deadline);
  // False if no runner is expected there.
  bool arrived(const WorkerRef& worker, uint64_t assembly);
  // Whether news of a runner of that assembly are about one that is not gone. One that is kept is
  // meant by the assembly before, too, until it has arrived in the new one.
  bool has(const WorkerRef& worker, uint64_t assembly) const;
  // It has a place, and does not leave.
  bool has_place(const WorkerRef& worker) const;
  // It has a place and was kept, and has not yet arrived in this assembly.
  bool is_held_over(const WorkerRef& worker) const;
  // Its runner is, or was asked to be, there; and it is not under suspicion.
  bool will_be_kept(const WorkerRef& worker) const;
  // It will not be kept.
  void suspect(const WorkerRef& worker);
  // False if there is none that is not gone.
  bool left(const WorkerRef& worker);

  // The assembly is over. Those under suspicion leave, and have until `deadline` to be gone.
  Leaving part(Clock::Steady deadline);
  // Everybody leaves; each is told once.
  Leaving stop(Clock::Steady deadline);

  // Who was to be there by a deadline before `now`, and who was to be gone.
  std::vector<WorkerRef> late_to_come(Clock::Steady now) const;
  std::vector<WorkerRef> late_to_go(Clock::Steady now) const;

 private:
  enum class Mode : uint8_t { going, parted, stopping };
  enum class Phase : uint8_t { leased, asked, there, gone };
  struct Member {
    WorkerRef worker;
    Phase phase = Phase::leased;
    uint64_t from = 0;                        // the first assembly whose news are its own
    bool lives = false;                       // it has arrived, in this assembly or in one before
    bool suspect = false;                     // will not be kept
    bool told = false;                        // to stop
    Clock::Steady by = Clock::Steady::max();  // to be there; to be gone, if told
    bool runs() const { return phase == Phase::asked || lives; }
  };
  size_t count(Phase phase) const;
  // One that is not gone; null if there is none.
  Member* find(const WorkerRef& worker);
  const Member* find(const WorkerRef& worker) const;
  void tell(Member& member, Clock::Steady deadline, Leaving& leaving);

  uint64_t assembly_ = 0;
  Mode mode_ = Mode::going;
  std::vector<Member> members_;  // by task
  std::vector<Member> leaving_;  // of earlier assemblies
};

}  // namespace leat
