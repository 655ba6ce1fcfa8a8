// The past of a job: its assemblies that a failure ended, and the faults of its chaos that have
// happened. It keeps the entries that the journal does not have yet, and moves them into the stored
// job when the journal has them.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/jobs/job_failures.h"
#include "daemon/jobs/table_context.h"

namespace leat {

class JobPast {
 public:
  // Both outlive this object.
  JobPast(TableContext& context, StoredJob& job)
      : context_(context), job_(job), began_ms_(job.condition.since_ms) {}

  // A new assembly has its workers; or it has begun, since the journal has it.
  void renew() { fault_came_ms_ = 0; }
  void began() { began_ms_ = context_.now.wall_ms; }
  // The assembly is over, at that step. Called again when the decision could not be written.
  void lost(std::string cause, JobFailure* failure, uint64_t step);
  // The assembly continues from there: completes the losses that wait for its first step. Returns
  // true if that must be written.
  bool goes_on(const ProgressReport& report, uint64_t assembly);
  // A fault is due. It is written before it happens, so that it happens in one assembly only.
  // Returns false if it has happened before.
  bool ask(FaultAsked fault);

  bool has_lost() const { return !lost_.empty(); }
  bool has_faults() const { return !asked_.empty(); }
  // Returns the entries for the next record. The write is pending until written().
  const std::vector<LostAssembly>& write_lost();
  const std::vector<FiredFault>& write_faults();
  // Returns the tickets of the faults.
  std::vector<uint64_t> written(bool ok);

 private:
  TableContext& context_;
  StoredJob& job_;
  std::vector<LostAssembly> lost_;       // more than the journal knows of them
  std::vector<LostAssembly> next_lost_;  // in flight, as the next two
  std::vector<FiredFault> next_fired_;
  std::vector<uint64_t> tickets_;
  std::vector<FaultAsked> asked_;  // faults that are due
  int64_t began_ms_ = 0;           // of Unix time: when the assembly began
  int64_t fault_came_ms_ = 0;      // of Unix time: when the last fault of this assembly was let go
};

}  // namespace leat
