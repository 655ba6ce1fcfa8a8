// A look at a job and at all that it depends on, at one moment, and the reason that follows from it
// why the job does not go on. docs/why.md explains the rules.
//
// Threads: values, and pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/timed_files.h"
#include "daemon/jobs/views.h"
#include "daemon/traces/diagnosis.h"

namespace leat {

// One device's part of one of the job's runs.
struct PartitionSituation {
  static constexpr size_t kNobody = std::numeric_limits<size_t>::max();
  enum class State : uint8_t {
    idle,      // it has done all steps that the master has allowed
    working,   // it computes
    receives,  // it waits for a value of `peer`
    sends,     // it waits for room at `peer`
    blocked,   // the kernel of `node` waits for something
  };
  uint64_t run = 0;
  std::string run_name;  // "train"
  bool trains = false;   // its steps are the job's
  std::string worker;
  std::string device;   // "cpu:0"
  bool answers = true;  // the rest is known
  State state = State::idle;
  std::string node, op;     // that it waits for, or that it runs; may be unknown
  bool reads_data = false;  // the node is a source of data
  size_t peer = kNobody;    // index of a partition of the same run
  // The peer has done its part already: the value, or the news of the room, is on its way.
  bool peer_is_done = false;
  uint64_t step = 0;      // where it stands
  uint64_t finished = 0;  // steps of this run that are done, and those that are allowed
  uint64_t allowed = 0;
  double unchanged = 0;  // seconds since it has done anything
};

// A runner, or the place of one that is to come.
struct RunnerSituation {
  std::string worker;
  bool registered = false;  // the master has its connection
  bool answers = false;     // it answered a call just now
  bool worker_answers = false;
  bool has_process = false;  // the worker knows a process of it
  char process_state = '?';  // as ProcessView has it, like the next one
  double quiet = -1;         // seconds since its last sign of life; negative: unknown
  // The oldest call of the master that it has not answered, with the seconds since; "": none.
  std::string call;
  double call_seconds = 0;
  bool call_reads_data = false;    // the runner reads the job's files for it
  bool call_writes_files = false;  // the runner writes a part of a checkpoint for it
};

// The clients of a session.
struct SessionSituation {
  size_t clients = 0;  // that hold it
  // Seconds since they have had no call open, or since none holds it; negative: a call is open.
  double idle = -1;
};

struct Situation {
  JobView job;
  int64_t now_ms = 0;
  std::vector<NodeView> nodes;
  std::vector<JobView> jobs;  // of the cluster
  Status journal;             // why its last write failed
  // The waits of the job's runs, and of the journal, for the master's disk.
  std::optional<DiskWait> disk, journal_disk;
  std::vector<RunnerSituation> runners;
  std::vector<PartitionSituation> partitions;
  std::optional<SessionSituation> session;  // if the job is one
};

// Begins the reason of a job that evaluates another one and has done so as far as that has come;
// the id of that job and "'" follow.
inline constexpr std::string_view kWaitsForCheckpoint = "waits for a checkpoint of job '";

// A job whose partitions have done nothing for so long does not move, in seconds.
inline constexpr double kStandsStill = 0.6;

// True if the job trains and has done something a moment ago.
bool moves(const Situation& situation);

// The reason why the job does not go on. Of a job that moves, what it waits for at this moment.
Diagnosis find_culprit(const Situation& situation);

// The reason that most looks at a moving job have in common, with their share in the sentence.
// REQUIRES: there is a look.
Diagnosis most_common(std::span<const Diagnosis> looks, double steps_per_second);

}  // namespace leat
