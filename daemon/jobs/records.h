// The records that the journal keeps of jobs: their submissions, and every change of their state.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/jobs/job_state.h"
#include "daemon/jobs/lost_assembly.h"
#include "daemon/jobs/progress.h"
#include "daemon/spec/queue_terms.h"
#include "devices/base/sha256.h"

namespace leat {

// A file that a job names: its bytes, or its hash alone if it was uploaded before (blobs.h).
struct AttachedFile {
  std::string name;  // relative, as the job file has it
  Sha256Digest sha256 = {};
  uint64_t size = 0;                 // bytes
  std::optional<std::string> bytes;  // at most 1 MiB; nothing: a blob
  bool operator==(const AttachedFile&) const = default;
};

// Makes a file with its size and hash.
AttachedFile attach(std::string name, std::string bytes);

// The prefix of the names of files from which a job resumes (daemon/master/resumed_job.h).
inline constexpr std::string_view kResumed = "resume/";
// Limits on the files of a job: those to resume from (a checkpoint's parts, its manifest and the
// metrics), and all others.
inline constexpr size_t kMaxResumedFiles = 4096 + 2;
inline constexpr size_t kMaxOtherFiles = 16;

// A job as it was submitted: everything that is needed to run it after the client is gone.
struct Submission {
  // Chosen by the client. A repeated one of the same user is the same request.
  std::string request_id;
  std::string name;                    // of the job file
  std::string text;                    // the job file
  std::vector<std::string> overrides;  // "steps=100", in order
  std::vector<AttachedFile> files;
  uint32_t num_workers = 1;        // the most workers that it leases
  uint32_t min_workers = 0;        // the fewest workers that it runs with; 0: num_workers
  uint32_t max_restarts = 3;       // recoveries before it fails
  std::vector<std::string> chaos;  // daemon/spec/chaos_fault.h, in order
  std::string dataset;             // only workers that have it run the job; "": all do
  uint32_t gpus = 0;               // of each worker
  QueueTerms terms;                // of its job file and its client, for the queue
  std::string by = {};  // its client's address, for the audit log; the journal has it not
  // The user whose jobs alone its client sees, and so may name; the journal has it not.
  std::optional<std::string> sees_only = {};
  bool operator==(const Submission&) const = default;
};

// The first line of the text of a submission that opens a session. No valid job file begins so.
inline constexpr std::string_view kSessionText = "session:\n";
// True if the submission opens a session: it has the options of one in place of a job file.
inline bool is_session(const Submission& submission) {
  return submission.text.starts_with(kSessionText);
}

// True for a relative path that stays below its folder: no "." or ".." part, at most 1 KiB.
bool is_tame_path(std::string_view path);

// invalid_argument for a submission that no master accepts: a malformed request id, a file name
// that leaves its folder, too many or too large files, no workers.
Status check_submission(const Submission& submission);

// The key of a request among those of all users: each user has request ids of its own.
std::string request_key(std::string_view user, std::string_view request_id);
// The request id of such a key, or of a journal that is older than the keys.
std::string_view request_id_of(std::string_view key);

// The hash of the submission without its request id. A file counts by its hash.
Sha256Digest content_of(const Submission& submission);

// "fashion-mnist-cnn-7f3a" of the job's name and four (or more) hexadecimal digits.
std::string make_job_id(std::string_view name, uint64_t random, int digits);

// The result of a job that succeeded: its weights, and the facts that they depend on besides the
// job file.
struct JobResult {
  std::string weights_sha256 = {};  // empty: there is no result
  uint64_t shards = 0;              // 0: neither it nor the fields below are known
  uint64_t seed = 0;
  std::string cpu = {};            // the model of the workers' processors; "A and B" if they differ
  bool depends_on_timing = false;  // asynchronous, or with backup workers: no other run gives them
  std::string precision = "float32";  // of Job::precision
  bool operator==(const JobResult&) const = default;
};

// ", precision bfloat16" for the line of facts beside a hash; nothing for float32, which is the
// rule.
std::string precision_clause(std::string_view precision);

// The text of a result in the journal: "3323... shards=4 seed=11 cpu=AMD EPYC 9454P", with
// " precision=bfloat16" and " timing=1" before "cpu" if the precision is not float32, and if the
// weights depend on timing. Without shards it is the hash alone.
std::string print_result(const JobResult& result);
// The result of such a text; the first word of any other text becomes the hash.
JobResult parse_result(std::string_view text);

// A fault of the job's chaos that has happened, or is about to.
struct FiredFault {
  uint32_t index = 0;  // in chaos_schedule()
  std::string fault;   // to_string()
  uint64_t assembly = 0;
  int64_t at_ms = 0;  // of Unix time
  bool operator==(const FiredFault&) const = default;
};

// The time that a job has spent in its states, in milliseconds.
struct JobTimes {
  int64_t queued = 0;      // in the queue, and until its runners were there
  int64_t running = 0;     // with all of its runners
  int64_t recovering = 0;  // from a lost assembly until all runners of the next one were there
  bool operator==(const JobTimes&) const = default;

  // Counts `ms` in `state`. The time after the end of a job counts nowhere, nor that of a pause.
  void add(JobState state, int64_t ms) {
    if (has_ended(state) || state == JobState::paused || ms < 0) return;
    (state <= JobState::starting     ? queued
     : state == JobState::recovering ? recovering
                                     : running) += ms;
  }
};

// The part of a job that changes and must survive. A new record replaces the one before.
struct JobCondition {
  JobState state = JobState::queued;
  std::string reason;                // of the state, for people; may be empty
  int64_t since_ms = 0;              // when the state began, milliseconds of Unix time
  uint32_t restarts = 0;             // recoveries so far
  uint64_t assembly = 0;             // assemblies of runners so far; 0: none yet
  std::vector<std::string> workers;  // of the last assembly
  JobResult result;                  // of a job that succeeded
  bool operator==(const JobCondition&) const = default;
};

struct JobSubmitted {
  uint64_t number = 0;  // counts the jobs of a cluster up from 1: the order of the queue
  std::string id;
  int64_t at_ms = 0;
  Sha256Digest content = {};
  std::shared_ptr<const Submission> submission;
};

struct JobChanged {
  std::string id;
  JobCondition condition;
  std::vector<LostAssembly> lost = {};  // each replaces the journal's row of that assembly
  // For a job that ends: the last report of its runners, if there was one.
  std::optional<ProgressReport> ended_with = {};
};

// New facts about the job's past; its condition stays.
struct JobNoted {
  std::string id;
  std::vector<LostAssembly> lost = {};
  std::vector<FiredFault> fired = {};
};

// The job is forgotten with all its rows; its folder will be removed.
struct JobForgotten {
  std::string id;
};

// The folder of a forgotten job is removed.
struct JobCleared {
  std::string id;
};

// Workers of that name get no jobs, or get them again.
struct WorkerDrained {
  std::string name;
  bool draining = true;
};

using JournalRecord =
    std::variant<JobSubmitted, JobChanged, JobNoted, JobForgotten, JobCleared, WorkerDrained>;

// A job as the journal returns it, without its text and its files.
struct StoredJob {
  uint64_t number = 0;
  std::string id;
  std::string request_id;
  Sha256Digest content = {};
  std::string name;
  uint32_t num_workers = 1;
  uint32_t min_workers = 0;  // 0: it is not elastic
  uint32_t max_restarts = 0;
  std::string dataset;   // as Submission has it
  uint32_t gpus = 0;     // likewise
  QueueTerms terms;      // likewise
  bool session = false;  // is_session()
  int64_t submitted_ms = 0;
  JobCondition condition;
  JobHistory history;
  JobTimes times;                            // in the states before the condition's
  std::vector<FiredFault> fired;             // in the order in which they happened
  int64_t first_ran_ms = 0;                  // of Unix time; 0: it has not run
  std::optional<ProgressReport> ended_with;  // as JobChanged has it
  bool operator==(const StoredJob&) const = default;

  // Changes the job's condition to `next`, which the journal has. A running master and one that
  // replays the journal both call it, so both know the same facts of the job.
  void become(JobCondition next) {
    if (next.state == JobState::running && first_ran_ms == 0) first_ran_ms = next.since_ms;
    times.add(condition.state, next.since_ms - condition.since_ms);
    condition = std::move(next);
  }
};

// The job as if the record had been written and read back.
StoredJob stored(const JobSubmitted& submitted);

}  // namespace leat
