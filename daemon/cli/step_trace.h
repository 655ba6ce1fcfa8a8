// Recordings of steps as files: of `leat trace`, and of `leat train --trace`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/hosts/recorded_steps.h"
#include "daemon/traces/recording.h"
#include "devices/base/status.h"

namespace leat {

// Writes the recording as chrome_trace() has it. Errors are those of write_file_atomically().
Status write_trace(const StepRecording& recording, const std::string& path);

// The recording of a training in this process. Threads: one.
class StepTrace {
 public:
  // `path`: of the file; `steps`: how many.
  StepTrace(std::string path, uint64_t steps);

  const std::shared_ptr<RecordedSteps>& recorded() const { return recorded_; }
  // The training goes from `first` steps to `last`. The trace is of its steps after the first ten,
  // which are slower, or of its last ones if it is short.
  void begin(uint64_t first, uint64_t last);
  // Writes the file, and returns lines for people: its path, and where the time of a step goes.
  // failed_precondition if the training has ended before those steps. REQUIRES: the hosts of the
  // training are there.
  Result<std::string> finish(const std::string& job);

 private:
  const std::string path_;
  const uint64_t steps_;
  const std::shared_ptr<RecordedSteps> recorded_;
  uint64_t after_ = 0;  // the recording begins after so many steps
};

}  // namespace leat
