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

// The idle runs are registered on the hosts and hold memory there, at most 16 for each plan.
// A plan of the cache. A step keeps the entry of its plan also when the cache has dropped it.
struct PlanEntry {
  // The resolved signature and the shapes of the feeds, as text.
  std::string key;
  StepPlan made;
  // The fields below are used under the session's lock.
  //
  // False once the cache has dropped the entry. Steps that still use it free their runs instead of
  // putting them into `idle`.
  bool cached = true;
  // Its place in the list of the cache; valid while `cached`.
  std::list<std::shared_ptr<PlanEntry>>::iterator place;
  std::vector<std::shared_ptr<SessionStep>> idle;
};

// Threads: under the session's lock. The steps that its functions return are to be freed without
// that lock. Replacement is by least recent use. A plan that is dropped while steps use it lives
// until the last of these is over.
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
