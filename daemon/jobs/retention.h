// Selects the ended jobs that the master forgets automatically, with all of their files. A live job
// never needs these files: a job that was resumed from another has the checkpoint as its own files
// (daemon/master/resumed_job.h). One that evaluates another does: it fails if that is forgotten
// first.
//
// Threads: values.
#pragma once

#include <chrono>
#include <cstdint>

namespace leat {

// Of jobs that have ended, as many stay as fit all three.
struct Retention {
  std::chrono::milliseconds max_age{0};  // since it ended; 0: any
  int64_t max_jobs = 1000;
  uint64_t max_bytes = 0;  // of what they left, in the folders of jobs; 0: any number
};

// Those that have ended and stay so far.
struct EndedJobs {
  int64_t count = 0;
  uint64_t bytes = 0;
  std::chrono::milliseconds oldest{0};  // since the one that ended first has
};

// Whether the one that ended first has to go.
bool forgets_oldest(const Retention& retention, const EndedJobs& ended);

}  // namespace leat
