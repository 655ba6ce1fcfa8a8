// Looks at running jobs for people: why a job does not go on, and what its devices do in a step.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/base/task_thread.h"
#include "daemon/master/job_questions.h"
#include "daemon/master/master_parts.h"
#include "daemon/traces/diagnosis.h"
#include "daemon/traces/situation.h"
#include "devices/base/status.h"

namespace leat {

class RemoteHost;

// Threads: any. The looks are on threads of its own, since they wait for runners.
class JobLooks {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  // `parts` outlive it, and are complete before the first call.
  explicit JobLooks(MasterParts& parts) : parts_(parts) {}

  // Answers within 2.5 s, unless people ask about many jobs at once; see JobQuestions. `id` may be
  // a prefix of only one id.
  void why(std::string id, Done<Diagnosis> done);
  // Answers with a file of daemon/wire/recording.capnp: see Master.record of cluster.capnp. One
  // recording is made at a time.
  void record(std::string id, uint64_t steps, std::chrono::steady_clock::time_point deadline,
              Done<std::vector<std::byte>> done);
  // Waits for the looks that are under way. Those that were not begun, and those that are asked for
  // later, are answered with `cancelled`.
  void stop();

 private:
  Result<Diagnosis> diagnose(const std::string& id,
                             std::chrono::steady_clock::time_point asked) const;
  Result<Situation> look(const std::string& id, std::chrono::milliseconds deadline) const;
  Result<std::vector<std::byte>> record_now(const std::string& id, uint64_t steps,
                                            std::chrono::steady_clock::time_point deadline) const;

  MasterParts& parts_;
  std::atomic<bool> stopping_{false};
  JobQuestions questions_{
      [this](const std::string& id, JobQuestions::Time asked) { return diagnose(id, asked); }};
  TaskThread recorder_{"recorder"};
};

}  // namespace leat
