// The state of a job on one runner, as the control plane reads and writes it: its variables, copies
// of them for checkpoints, and the data sets that it reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/hosts/variable_snapshot.h"
#include "daemon/hosts/variables.h"
#include "daemon/runner/control_threads.h"
#include "daemon/runner/run_table.h"
#include "daemon/runner/runner_parts.h"
#include "ops/data/dataset.h"

namespace leat {

// Threads: any. A `done` is called once, on a control thread, and must not block; it is dropped
// uncalled after stop(). The variables are read and written on the job's strand, in the order of
// the calls, and only when no step is in flight. JobRunner owns it. Wherever a call is for "no step
// in flight", it waits up to 30 s for the allowed steps to be finished, and ends with
// deadline_exceeded otherwise.
class JobData {
 public:
  using Done = std::function<void(const Status&)>;

  // All outlive it. `job_strand` is a strand of `control`.
  JobData(RunnerParts& parts, RunTable& runs, ControlThreads& control,
          ControlThreads::Strand job_strand);
  JobData(const JobData&) = delete;
  JobData& operator=(const JobData&) = delete;

  // The variables as a safetensors file, which is in memory as a whole.
  void read_variables(std::function<void(Result<Bytes>)> done);
  // Sets the variables from such a file. `step`: the number of steps after which they had these
  // values. invalid_argument for a file that cannot be parsed; otherwise the errors of
  // write_variables() of variables.h, such as a shape that differs.
  void write_variables(Bytes file, Restore what, std::optional<uint64_t> step, Done done);
  // The commits whose values the variables have. failed_precondition while there are runs.
  void held(std::function<void(Result<Held>)> done);

  // Copies these variables, when no step is in flight.
  void take_snapshot(int64_t step, std::vector<std::string> names, Done done);
  // Makes the run copy them when it has done the steps below `step`: see interface Runner. A copy
  // that fails is logged. failed_precondition if the run is not connected.
  Status take_snapshot_in_passing(const RunPart& run, int64_t step, std::vector<std::string> names);
  // Both give the copy as a part of a checkpoint: the first as bytes, the second as a file that is
  // synced. Steps continue meanwhile, with a higher priority. The error of VariableSnapshot::read()
  // if the copy of that step is not there.
  void read_snapshot(int64_t step, std::function<void(Result<Bytes>)> done);
  void write_snapshot(int64_t step, PartPlace place,
                      std::function<void(Result<CheckpointPart>)> done);
  // `files.root` is the data set's name. `classes`: more than 0 has it look at all labels.
  // deadline_exceeded after 55 s. invalid_argument for a name that the worker does not have.
  void inspect_dataset(DatasetFiles files, ClassCheck check,
                       std::function<void(Result<DatasetReport>)> done);

  // Returns when the work beside the steps is done; work that has not begun is dropped.
  void stop() { background_.stop(); }

 private:
  JobTables tables() const { return parts_.host.all_resources(parts_.config.job); }

  RunnerParts& parts_;
  RunTable& runs_;
  ControlThreads& control_;
  ControlThreads::Strand job_strand_;
  VariableSnapshot snapshot_;
  ControlThreads background_;  // for work that may be slow: see background.h
};

}  // namespace leat
