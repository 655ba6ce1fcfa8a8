// Questions about jobs, for each of which a caller waits, and which take a while to answer.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/task_thread.h"
#include "daemon/traces/diagnosis.h"
#include "devices/base/status.h"

namespace leat {

// The answer to all questions when the master ends.
Status is_stopping();

// Answers a few questions at a time, on threads of its own. Questions about the same job that
// no thread has begun with get one answer together: however many ask about a job, each of them
// waits for two answers at most. The others wait in order.
//
// Threads: any.
class JobQuestions {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Done = std::function<void(Result<Diagnosis>)>;
  // Answers a question about the job `id`. Blocks. `asked`: when the first one asked.
  using Answer = std::function<Result<Diagnosis>(const std::string& id, Time asked)>;

  static constexpr size_t kAtOnce = 4;

  explicit JobQuestions(Answer answer);
  ~JobQuestions() { stop(); }

  // Calls `done` on one of the threads; at once, with `cancelled`, after stop().
  void ask(std::string id, Done done);
  // Answers the questions that no thread has begun with with `cancelled`, and waits for the others.
  void stop();

 private:
  struct Question {
    std::string id;
    Time asked;
    std::vector<Done> done;
  };
  void answer_next();

  const Answer answer_;
  std::mutex mutex_;
  std::deque<Question> waiting_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<TaskThread>> threads_;
};

}  // namespace leat
