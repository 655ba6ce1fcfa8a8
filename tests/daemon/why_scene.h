// A cluster of real daemons with one job, whose stalls and slownesses a test induces, and what
// `leat why` and `leat explain` say about it.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/daemon/job_scene.h"

namespace leat {

// The answer of a command with --json.
struct WhyAnswer {
  std::string kind, subject, sentence;
  std::vector<std::string> chain;
  std::string text;                          // all of it, for messages
  std::chrono::milliseconds took{0};         // the command that gave it
  std::chrono::milliseconds after_first{0};  // from the first question to this answer
};

// The environment that makes a failpoint of the workers' processes act: "transport/send_piece=...".
ProcessClusterOptions worker_failpoints(int workers, const std::string& text);

class WhyScene {
 public:
  explicit WhyScene(const ProcessClusterOptions& options, const std::string& graph = "")
      : scene_(options, graph) {}
  explicit WhyScene(int workers) : WhyScene(ProcessClusterOptions{.workers = workers}) {}

  // Submits a job on `workers` workers with a long epoch, and waits until it has done `step` steps;
  // with 0 it waits for nothing.
  std::string start(int workers, uint64_t step, std::vector<std::string> set = {},
                    std::vector<std::string> chaos = {});
  WhyAnswer why(const std::string& job);
  // Asks until an answer has this kind, and this subject if it is given, for a minute at most.
  // Returns the last answer.
  WhyAnswer await_why(const std::string& job, const std::string& kind,
                      const std::string& subject = "");
  // Lets other programs have the processors of the job's runner on a worker: it gets what they
  // leave.
  void disturb(const std::string& job, const std::string& worker);
  JobScene& scene() { return scene_; }
  ProcessCluster& cluster() { return scene_.cluster(); }
  // The process of the job's runner on a worker.
  pid_t runner(const std::string& job, const std::string& worker);

 private:
  // Threads that compute until the scene ends.
  struct Burners {
    ~Burners();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
  };
  JobScene scene_;
  Burners burners_;
};

}  // namespace leat
