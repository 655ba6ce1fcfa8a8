// The answer of `leat why`. A plain record; docs/why.md lists the kinds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace leat {

// The kinds of things that keep a job. Scripts may compare these words.
namespace culprit {
inline constexpr std::string_view kNone = "none";        // the job goes on
inline constexpr std::string_view kEnded = "ended";      // the job has ended
inline constexpr std::string_view kPaused = "paused";    // a user has paused the job
inline constexpr std::string_view kDevices = "devices";  // too few workers for it
inline constexpr std::string_view kQueue = "queue";      // other jobs have the workers
inline constexpr std::string_view kJob = "job";          // the job that it evaluates
inline constexpr std::string_view kClient = "client";    // the client of a session
inline constexpr std::string_view kDrained = "drained";  // workers that are drained
inline constexpr std::string_view kStart = "start";      // a runner that has not registered
inline constexpr std::string_view kRunner = "runner";    // a runner that is stopped or hangs
inline constexpr std::string_view kWorker = "worker";    // a worker that is stopped or lost
inline constexpr std::string_view kLink = "link";        // the network between two workers
inline constexpr std::string_view kInput = "input";      // data that does not come
inline constexpr std::string_view kCompute = "compute";  // a kernel that takes long
inline constexpr std::string_view kBlocked = "blocked";  // a kernel that waits: a queue, a file
inline constexpr std::string_view kDisk = "disk";        // the master's disk
inline constexpr std::string_view kMaster = "master";    // the master itself
}  // namespace culprit

// The one cause that holds a job up now, of several that may do so; a later diagnosis may have
// another.
struct Diagnosis {
  std::string kind = std::string(culprit::kNone);
  std::string subject;   // the worker, "w0 - w1" for a link, or a job
  std::string sentence;  // "The runner on w1 has not run for 1.4 s: its process is stopped."
  // The waits from the job down to the culprit; each line is a sentence.
  std::vector<std::string> chain;
  double seconds = -1;  // since when it has lasted; negative: unknown
  std::string advice;   // what to do about it; may be empty
};

}  // namespace leat
