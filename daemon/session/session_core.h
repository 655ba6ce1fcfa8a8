// What is inside a session: versions of the graph, callables, plans, and the steps in flight.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/session/session.h"
#include "daemon/session/session_step.h"

namespace leat {

// A plan of the cache, and the registered runs of it that no step is using. Steps keep their entry
// when the cache has dropped it.
struct PlanEntry {
  std::string key;
  StepPlan made;
  // Under the session's lock.
  bool cached = true;
  std::list<std::shared_ptr<PlanEntry>>::iterator place;
  std::vector<std::shared_ptr<SessionStep>> idle;
};

struct GraphVersion {
  uint64_t version = 0;
  Graph graph;
  GraphNames names;
};

// A signature in ids. Ids stay what they are in later versions.
struct ResolvedSignature {
  std::shared_ptr<const GraphVersion> version;
  Borders borders;
  bool isolated = true;
  std::string key;
};

// Threads: any. Locks: extending_ before mutex_ before a step's own; the tickets' is never held
// with another.
class SessionCore {
 public:
  using Clock = std::chrono::steady_clock;

  SessionCore(HostGroup& hosts, SessionOptions options);
  ~SessionCore();

  const SessionOptions& options() const { return options_; }
  VariableTickets& tickets() { return job_->tickets; }

  Result<uint64_t> extend(uint64_t version, const Graph& graph);
  uint64_t version() const;
  Result<ResolvedSignature> resolve(const Signature& signature) const;
  Result<CallableId> add_callable(ResolvedSignature signature);
  Status release_callable(CallableId id);

  Result<StepHandle> start(const ResolvedSignature& signature, std::span<const Tensor> feeds,
                           Session::Deadline deadline, Session::Finished finished);
  Result<StepHandle> start_callable(CallableId id, std::span<const Tensor> feeds,
                                    Session::Deadline deadline, Session::Finished finished);
  void close();

  // The step has failed: the session's thread is to stop it. From any thread, never blocks.
  void retire(SessionStep& step);
  // The step is over and its handle gone: its run may serve another.
  void give_back(SessionStep& step);

 private:
  struct Callable {
    ResolvedSignature signature;
    std::shared_ptr<PlanEntry> last;  // used; under mutex_
  };
  struct Numbered {
    std::shared_ptr<SessionStep> step;
    uint64_t number;
  };

  Status closed_status() const;
  Status no_callable(CallableId id) const;  // under mutex_: why there is none
  Result<std::shared_ptr<PlanEntry>> entry_for(const ResolvedSignature& signature,
                                               std::span<const Tensor> feeds,
                                               Clock::time_point deadline);
  std::shared_ptr<PlanEntry> find_entry(const std::string& key);
  void touch(PlanEntry& entry);  // under mutex_
  void insert(std::shared_ptr<PlanEntry> entry);
  Result<std::shared_ptr<SessionStep>> step_of(const std::shared_ptr<PlanEntry>& entry);
  void free_idle();
  Result<StepHandle> launch(const std::shared_ptr<PlanEntry>& entry, std::span<const Tensor> feeds,
                            Clock::time_point deadline, Session::Finished finished);
  Clock::time_point deadline_of(Session::Deadline deadline) const {
    return deadline ? *deadline : Clock::now() + options_.timeout;
  }
  std::vector<Numbered> in_flight();
  void watch();  // the session's thread

  HostGroup& hosts_;
  const SessionOptions options_;
  const std::shared_ptr<SessionJob> job_;
  std::mutex extending_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for the session's thread
  bool closed_ = false, stop_ = false;
  std::shared_ptr<const GraphVersion> version_;
  CallableId next_callable_ = 1;
  std::map<CallableId, std::shared_ptr<Callable>> callables_;
  std::list<std::shared_ptr<PlanEntry>> recent_;  // the one used last comes first
  std::map<std::string, std::shared_ptr<PlanEntry>> plans_;
  uint64_t next_number_ = 0;
  std::map<SessionStep*, std::shared_ptr<SessionStep>> in_flight_;
  std::vector<SessionStep*> failed_;
  Clock::time_point wakes_at_ = Clock::time_point::max();
  std::thread watcher_;
};

}  // namespace leat
