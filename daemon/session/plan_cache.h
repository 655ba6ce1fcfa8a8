// The plans that a session keeps, by signature and feed shapes, and the registered runs of each
// that no step is using.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/session/step_plan.h"

namespace leat {

class SessionStep;

// A plan of the cache. A step keeps the entry of its plan also when the cache has dropped it.
struct PlanEntry {
  std::string key;
  StepPlan made;
  // Under the session's lock.
  bool cached = true;
  std::list<std::shared_ptr<PlanEntry>>::iterator place;
  std::vector<std::shared_ptr<SessionStep>> idle;
};

// Threads: under the session's lock. The steps that its functions return are to be freed without
// that lock.
class PlanCache {
 public:
  using Steps = std::vector<std::shared_ptr<SessionStep>>;

  // Keeps at most `limit` plans, and at least one.
  explicit PlanCache(size_t limit) : limit_(limit) {}

  // Returns the plan of that key and marks it as just used; null if there is none.
  std::shared_ptr<PlanEntry> find(const std::string& key);
  // Marks the plan as just used.
  void touch(PlanEntry& entry);
  // Adds a plan, and drops those that were used least recently. Returns the idle runs of these.
  Steps insert(std::shared_ptr<PlanEntry> entry);
  // Takes the idle runs of all plans.
  Steps take_idle();

 private:
  const size_t limit_;
  std::list<std::shared_ptr<PlanEntry>> recent_;  // the one used last comes first
  std::map<std::string, std::shared_ptr<PlanEntry>> plans_;
};

}  // namespace leat
