// The master's jobs: pure logic. Events come in, actions go out (events.h); it reads no clock, no
// file and no socket, and draws random numbers only from what it is given. So a simulator drives it
// as the daemon does, and equal events give equal actions.
//
// The daemon's loop, on one thread:
//
//   JobTable table({}, random);
//   run(table.restore(journal->replay(), moment_of(clock)));
//   on anything that happens:  run(table.handle(event, moment_of(clock)));
//   run(actions):              each in order; a WriteJournal goes to the journal's thread, and what
//                              became of it comes back as the event JournalWritten.
//
// What holds:
//
// * Whatever anyone sees of a job's condition is in the journal: a change is first written, then
//   visible, then acted on. So an acknowledged submit survives, a terminal state never changes, and
//   no runner starts in an assembly that a restarted master would not know of. One change of a job is
//   in the air at a time; what happens meanwhile is kept as facts, and decided on afterwards.
// * A write that fails refuses the submit with resource_exhausted. Every other change is decided
//   anew after `retry_after`; reads are served all the time, with what was written.
// * A job leases whole workers, first come first served. A job that wants more workers than there
//   are, free or not, is passed over until they have joined; else nobody overtakes. Of a job that
//   names a data set only workers that have it count.
// * An elastic job begins with as many workers as are free, `min_workers` at least, goes on with
//   those that are left, and is asked to come to a fence when more are free than anybody waits for.
//   So is a job with a worker that drains. What ends at a fence is none of the job's restarts, and
//   nothing is computed twice for it. A job that may not restart is left alone.
// * A run may spare some of its workers (backup workers, ProgressReport::spared_from): one that is
//   lost is no failure, unless the run says so. It is asked to come to a fence when there is
//   another in that one's place.
// * A worker's lease ends when its runner is gone or the worker is lost. A runner that neither
//   comes nor goes in time costs its job the assembly, or its worker the membership: every wait here
//   ends by Ticks.
//
// A job that fails for a cause that may pass (a lost or stuck worker, a runner's death) tries
// again, up to its max_restarts, at once if it has got on since and else after a while
// (failure_budget.h). The same crash at the same step for the third time fails it: no bad luck aims
// so well. A signal from outside, such as SIGKILL, is no crash, however often it comes.
// Whom the failure did not befall keeps his runner and his lease, and goes on in the next assembly
// with others in the places of those that are gone (assembly.h); what befalls them meanwhile is no
// failure of that assembly's. A step that did not end in time may be anybody's fault: nobody is kept.
// Where a link between two was lost, one of them goes (lost_links.h).
//
// Threads: one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/assembly.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/retention.h"

namespace leat {

struct JobTableLimits {
  size_t max_unfinished = 10000;                   // further submits are refused
  Retention retention = {};                        // of those that have ended
  std::chrono::milliseconds start_timeout{30000};  // for a runner to be there
  std::chrono::milliseconds stop_grace{1500};      // for a runner to end by itself
  std::chrono::milliseconds stop_timeout{5000};    // after that, for its end to be heard of
  std::chrono::milliseconds retry_after{1000};     // a failed write
  // A failure is seen from two sides: whose process or node is gone, and what the run was doing and
  // waiting for. So long one of them is waited for after the other.
  std::chrono::milliseconds other_side{250};
  // But of a runner or worker that is gone a run tells at once what it has to say.
  std::chrono::milliseconds run_tells{100};
  // While a worker of the job is silent, so long: that it is lost says more than what a run saw.
  std::chrono::milliseconds silence{3000};
  // Runners that a failure has left wait so long, with the job in memory, for workers in the place
  // of those that are gone.
  std::chrono::milliseconds keep_survivors{60000};
  // An assembly of an elastic job goes on so long before it ends for more workers. It does not end for
  // them if the job would have ended in that time without them.
  std::chrono::milliseconds grow_after{3000};
  // So long a master that has started again waits for the runners that its jobs had: their workers
  // try to reach it every 2 s at most.
  std::chrono::milliseconds take_up{5000};
  // No new job is called so: there are folders of these names.
  std::set<std::string, std::less<>> taken_ids = {};
};

class JobTable {
 public:
  JobTable(const JobTableLimits& limits, std::function<uint64_t()> random);
  ~JobTable();

  // Takes up what the journal holds, before any event. Jobs that had runners are RECOVERING, "the
  // master restarted", which is none of their restarts. Runners that have gone on meanwhile are
  // kept if they come in time; in the place of the others the job gets workers as these join. Views
  // of a higher `generation` have higher versions: who watched the master before this one hears of
  // all that is new.
  JobActions restore(const std::vector<StoredJob>& jobs, Moment now, uint64_t generation = 0);
  JobActions handle(JobEvent event, Moment now);

  // A job by its id or a prefix of no other. failed_precondition if there is none,
  // invalid_argument, with their ids, if there are several.
  Result<JobView> find(std::string_view id) const;
  // The job whose submit of this request id was accepted, or is being written; "" if there is none.
  std::string job_of_request(const std::string& request_id) const;
  // All jobs, in the order of their submission.
  std::vector<JobView> jobs() const;
  // Rises whenever any view changes: who watches looks again.
  uint64_t version() const { return version_; }

  const Leases& leases() const { return leases_; }
  // The id of the job that leases the worker; "" if none does.
  std::string job_on(std::string_view worker) const;
  // Why the last write failed; ok after one that did not.
  const Status& journal_status() const { return journal_status_; }

 private:
  struct Entry;

  void on(SubmitAsked event);
  void on(CancelAsked event);
  void on(const RemoveAsked& event);
  void on(const JobWeighed& event);
  void on(const WorkerJoined& event);
  void take_up(const WorkerRef& worker, const HeldRunner& runner);
  void on(const WorkerLost& event);
  void on(const WorkerStuck& event);
  void on(const WorkerSilent& event);
  void on(const WorkerDraining& event);
  void on(const RunnerStarted& event);
  void on(const RunnerExited& event);
  void on(const JobFinished& event);
  void on(const JobBroke& event);
  void on(const RunYielded& event);
  void on(const RunWaits& event);
  void on(const ProgressMade& event);
  void on(const LinkFailed& event);
  void on(const InputStarved& event);
  void on(FaultAsked event);
  void on(const JournalWritten& event);
  void on(const Tick& event);

  // What follows from the facts of a job that has no change in the air.
  void advance(Entry& entry);
  void advance_with_runners(Entry& entry);
  void advance_failed(Entry& entry);
  void back_off(Entry& entry);
  // Gives workers to those that wait, in order.
  void schedule();
  // Workers that leave, and more than there were: job_elastic.cc.
  bool leaves_workers(Entry& entry);
  bool lets_go(const Entry& entry, const WorkerRef& worker) const;
  void hold(Entry& entry, bool saved);
  void ask_to_yield(Entry& entry, std::string cause, std::string culprit, bool saves);
  void gives_up(Entry& entry, std::string cause, std::string culprit, uint64_t step);
  void grow();
  bool goes_on_without(Entry& entry, const WorkerRef& worker, std::string text);
  bool may_be_asked(const Entry& entry) const;
  bool may_replace(const Entry& entry) const;
  bool may_grow(const Entry& entry) const;
  // Forgets jobs that have ended: those that were asked for, and the oldest beyond `retention`.
  void drop_ended();
  bool may_forget(const Entry& entry) const;
  void propose_to_forget(Entry& entry);
  JobActions settle();

  JobCondition changed(const Entry& entry, JobState state, std::string reason) const;
  void propose(Entry& entry, JobCondition next);
  void note(Entry& entry);
  void commit_submit(Entry& entry, const Status& status);
  void commit_change(Entry& entry, const Status& status);
  void refuse_change(Entry& entry, const Status& status);
  void entered(Entry& entry, const JobCondition& before);
  void commit_forget(Entry& entry, const Status& status);

  void stop(Entry& entry, const std::string& reason);
  void part(Entry& entry, const std::string& reason);
  void set_refuses(bool refuses);
  void tick(Entry& entry);
  void leave(Entry& entry, Assembly::Leaving leaving, std::chrono::milliseconds grace,
             const std::string& reason);
  void end_run(Entry& entry, const std::string& reason);
  void member_left(Entry& entry, const WorkerRef& worker);
  void set_failure(Entry& entry, const WorkerRef& worker, std::string subject, std::string how,
                   bool crash, std::chrono::milliseconds detected_after);
  void set_failure(Entry& entry, const Status& of_run);
  // Links and silence: job_links.cc.
  bool may_be_silence(const Entry& entry) const;
  void judge_links(Entry& entry);
  void leave_out(Entry& entry, const std::string& worker, bool for_its_own = false);
  // Workers that cannot have it: they lack its data set.
  std::vector<std::string> unfit(const Entry& entry) const;
  std::string who_is_none(const Entry& entry) const;
  // With those. `all`: also those that may come back if no other is free.
  std::vector<std::string> left_out(const Entry& entry, bool all = false) const;
  bool knows_enough(const Entry& entry) const;
  // The job's history: job_history.cc.
  void lost_assembly(Entry& entry, std::string cause);
  void goes_on(Entry& entry, const ProgressReport& report);
  void noted(Entry& entry, const Status& status);
  void answer_cancels(Entry& entry, const Status& status);
  void touch(Entry& entry);

  std::string new_id(std::string_view name);
  Entry* find_entry(std::string_view id) const;  // exact
  Result<Entry*> look_up(std::string_view prefix) const;
  // The job whose runners of that assembly are what the event is about.
  Entry* find_assembly(std::string_view id, uint64_t assembly) const;
  bool waits(const Entry& entry) const;
  bool wants_to_change(const Entry& entry) const;
  bool awaits_workers(const Entry& entry) const;
  size_t wanted(const Entry& entry) const;
  size_t usable(const Entry& entry) const;
  std::string waiting_reason(const Entry& entry) const;
  JobView view(const Entry& entry) const;

  const JobTableLimits limits_;
  const std::function<uint64_t()> random_;

  std::map<uint64_t, std::unique_ptr<Entry>> entries_;  // by number
  std::map<std::string, uint64_t, std::less<>> ids_;
  std::map<std::string, uint64_t, std::less<>> requests_;  // by request id
  std::set<uint64_t> unfinished_;                          // numbers, in the order of the queue
  std::set<uint64_t> backing_off_;                         // have failed, and wait a while
  std::set<uint64_t> assembled_;                           // have runners that are not gone
  std::map<uint64_t, uint64_t> ended_;                     // numbers, in the order of their ends
  uint64_t ended_bytes_ = 0;                               // that they left
  std::set<uint64_t> unwanted_;                            // numbers, of ended jobs to forget
  std::set<std::string> forgotten_;      // ids by now; their folders may still be there
  std::map<uint64_t, uint64_t> writes_;  // in the air: job's number by write
  Leases leases_;
  std::set<std::string> silent_;  // workers that have not been heard of for a while

  uint64_t last_number_ = 0;
  uint64_t last_write_ = 0;
  uint64_t last_end_ = 0;
  uint64_t version_ = 0;
  uint64_t queue_version_ = 0;  // of the last change of what waiting jobs wait for
  uint64_t head_ = 0;           // the first in the queue that workers could suffice for
  bool queue_changed_ = false;
  Status journal_status_;
  bool refuses_ = false;                     // the journal, what it was last asked to write
  std::optional<Clock::Steady> held_until_;  // no writes but submits, after one that failed

  // Of the event that is being handled.
  Moment now_;
  JobActions actions_;
  std::vector<std::pair<uint64_t, uint64_t>> submitted_;  // tickets to answer, and their jobs
};

}  // namespace leat
