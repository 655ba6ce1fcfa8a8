// One job in the table of jobs, for the files of job_table alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/assembly.h"
#include "daemon/jobs/failure_budget.h"
#include "daemon/jobs/job_table.h"
#include "daemon/jobs/lost_links.h"

namespace leat {

struct JobTable::Entry {
  enum class Write : uint8_t { none, submit, change, note, forget };
  struct Failure {
    std::string text;
    std::string how;              // the part of it that says what happened to a process or worker
    std::string of_run;           // what the run saw of it
    std::string culprit;          // the worker, if it is one
    int64_t at_ms = 0;            // of Unix time
    int64_t detected_after = -1;  // as in LostAssembly
    bool may_pass = false;        // another try may go better
    bool keeps = false;           // those whom it did not befall go on in the next assembly
    bool counts = true;           // as one of the job's restarts
    bool crash = false;           // by the job's own doing, it seems
    int alike = 1;                // how many in a row were the same, with this one
    bool stuck = false;           // who goes does not end by itself
    uint64_t step = 0;            // where the job was
    Clock::Steady seen{};         // first
    std::optional<Clock::Steady> until;  // the other side is waited for
    std::string reason() const;
    bool same_as(const Failure& other) const {
      const bool alike = how.empty() ? text == other.text : how == other.how;  // whoever it befell
      return crash && other.crash && step == other.step && alike;
    }
  };

  // The run was asked to come to a fence.
  struct Yield {
    std::string cause;
    std::string culprit;  // a worker that drains; "" if none does
    bool saves = false;
  };

  StoredJob job;  // as in the journal
  uint64_t version = 0;
  uint64_t end = 0;    // its key in ended_
  uint64_t bytes = 0;  // that it left, as far as that is known

  // In the air. Until a submit is written nobody sees the job.
  Write write = Write::none;
  JobCondition next;
  std::vector<LostAssembly> next_lost;
  std::vector<FiredFault> next_fired;
  std::vector<uint64_t> fire_tickets;  // of next_fired
  std::vector<uint64_t> submit_tickets;
  std::vector<uint64_t> remove_tickets;

  // Facts, not written.
  bool had_runners = false;  // before the master restarted
  bool cancel_asked = false;
  std::string cancel_by;
  std::vector<uint64_t> cancel_tickets;
  std::optional<std::string> finished;  // with this result
  std::optional<Failure> failure;
  std::optional<Failure> last_failure;  // of an earlier assembly
  FailureBudget failures;
  std::optional<Clock::Steady> not_before;  // the next assembly begins
  int64_t assembly_began_ms = 0;               // of Unix time
  int64_t fault_came_ms = 0;      // of Unix time: when the last fault of this assembly was let go
  std::vector<LostAssembly> lost;    // more than the journal knows of them
  std::vector<FaultAsked> asked;  // faults that are due

  Assembly assembly;
  Clock::Steady parted_at{};                   // when its runners began to wait for the next assembly
  std::optional<Clock::Steady> take_up_until;  // the master has restarted: its runners may come
  bool runs = false;                           // between RunJob and EndRun
  bool stepped = false;                        // in this assembly
  std::set<std::string> holders;  // workers that have what the job last came to in memory
  bool in_parts = true;           // each has a part of it; so it is taken until the run says
  bool saved = false;             // a checkpoint has it, too
  std::optional<Yield> yield;
  std::string waits_for;     // as the run of this assembly says
  uint32_t spared_from = 0;  // as the run of this assembly says
  struct Missing {
    std::string worker;
    std::string text;  // what became of it
  };
  std::vector<Missing> missing;  // those that the run goes on without
  Clock::Steady ran_at{};        // when its run began
  ProgressMeter progress;
  LostLinks links;
  struct LeftOut {
    Clock::Steady until{};
    Clock::Steady::duration time{};
    bool for_its_own = false;  // for what is its own, and not between it and others
  };
  std::map<std::string, LeftOut> left_out;  // by worker: it gets nothing of this job for a while

  // Fewer workers are none of use.
  size_t least() const { return job.min_workers > 0 ? job.min_workers : job.num_workers; }
  // It holds nothing that another assembly could not go on with.
  bool may_move() const { return job.max_restarts > 0; }
  JobState state() const { return job.condition.state; }
  bool is_visible() const { return write != Write::submit; }
};

}  // namespace leat
