// The callables of a session: signatures that were resolved once and are run by their number.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/session/plan_cache.h"
#include "daemon/session/session.h"
#include "daemon/session/signature.h"

namespace leat {

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

struct Callable {
  ResolvedSignature signature;
  std::shared_ptr<PlanEntry> last;  // the plan of its last step; under the session's lock
};

// Threads: under the session's lock.
class Callables {
 public:
  // `session` begins the messages: "session 's'".
  explicit Callables(std::string session) : session_(std::move(session)) {}

  CallableId add(ResolvedSignature signature);
  // failed_precondition if it was released, invalid_argument for a number that was never given.
  Result<std::shared_ptr<Callable>> find(CallableId id) const;
  Status release(CallableId id);
  // Removes and returns all callables; the caller frees them without the lock.
  std::map<CallableId, std::shared_ptr<Callable>> clear() { return std::exchange(callables_, {}); }

 private:
  const std::string session_;
  CallableId next_ = 1;
  std::map<CallableId, std::shared_ptr<Callable>> callables_;
};

}  // namespace leat
