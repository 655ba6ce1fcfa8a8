// A table of jobs in which jobs run, wait and come to fences, for tests of its queue.
#pragma once

#include <string>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {

inline QueueTerms of_priority(int64_t priority, bool preemptible = false) {
  QueueTerms terms;
  terms.priority = priority;
  terms.preemptible = preemptible;
  return terms;
}
inline QueueTerms of_user(const std::string& user) {
  QueueTerms terms;
  terms.user = user;
  return terms;
}
inline QueueTerms for_at_most(std::chrono::milliseconds time) {
  QueueTerms terms;
  terms.max_run_time = time;
  return terms;
}
inline QueueTerms of_cores(int64_t cores, uint64_t memory = 0) {
  QueueTerms terms;
  terms.cpu = cores;
  terms.memory = memory;
  return terms;
}

// A cluster of `workers` workers, w1 to wN.
struct QueueScene : TableDriver {
  explicit QueueScene(int workers) {
    for (int i = 1; i <= workers; ++i) join(cat("w", i));
  }
  // A worker joins that offers shares.
  void join_with(const std::string& worker, uint32_t cores, uint64_t memory = uint64_t{8} << 30) {
    WorkerJoined joined{{worker, 1}};
    joined.cores = cores;
    joined.memory = memory;
    send(joined);
  }
  // Submits a job that runs at once.
  std::string run(const std::string& name, uint32_t workers, const QueueTerms& terms = {},
                  uint32_t least = 0) {
    const std::string id = submit(name, workers, terms, least);
    REQUIRE(state(id) == "STARTING");
    begin(id);
    return id;
  }
  // Its runners start, and it does a step.
  void begin(const std::string& id) {
    start_all(id);
    REQUIRE(state(id) == "RUNNING");
    send(ProgressMade{id, view(id).condition.assembly, {.step = 5, .steps = 1000}});
    (void)done();
  }
  void finish(const std::string& id) {
    send(JobFinished{id, view(id).condition.assembly, "abc"});
    exit_all(id);
  }
  void come_to_fence(const std::string& id, uint64_t step, bool saved = true) {
    send(RunYielded{id, view(id).condition.assembly, step, saved});
  }
  JobView view(const std::string& id) const { return *table->find(id); }
  uint32_t position(const std::string& id) const { return view(id).position; }
  std::string pause(const std::string& id, bool undo = false) {
    const uint64_t ticket = ++tickets_;
    send(PauseAsked{ticket, id, undo, "ann"});
    return answer(ticket);
  }
  std::string cancel(const std::string& id) {
    const uint64_t ticket = ++tickets_;
    send(CancelAsked{ticket, id, "ann"});
    return answer(ticket);
  }

 private:
  uint64_t tickets_ = 1;
};

}  // namespace leat
