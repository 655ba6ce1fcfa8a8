// The callables of a session: signatures that were resolved once and are run by their number.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/session/plan_cache.h"
#include "daemon/session/session.h"
#include "daemon/session/signature.h"

namespace leat {

// One version of a session's graph, with its names. It does not change; steps and callables share
// it and keep it alive after later versions have come.
struct GraphVersion {
  // Counts from 1 within the session.
  uint64_t version = 0;
  // Validated: shapes and types are inferred.
  Graph graph;
  GraphNames names;
};

// A signature in ids. Ids stay what they are in later versions.
struct ResolvedSignature {
  // The version in which the names were looked up. Later extensions do not change a resolved
  // signature.
  std::shared_ptr<const GraphVersion> version;
  // The values that are fed and fetched, and the target nodes, by id.
  Borders borders;
  // As Signature::isolated.
  bool isolated = true;
  // The borders and `isolated` as text: the first part of the key in the plan cache. Two signatures
  // with equal keys share their plans, also across versions.
  std::string key;
};

// A signature under its number. Steps that are being started hold a reference, so a released
// callable lives until these have started.
struct Callable {
  ResolvedSignature signature;
  // The plan of its last step, which saves building a key when the feeds have the same shapes
  // again. Null before the first step. Under the session's lock.
  std::shared_ptr<PlanEntry> last;
};

// Threads: under the session's lock.
class Callables {
 public:
  // `session` begins the messages: "session 's'".
  explicit Callables(std::string session) : session_(std::move(session)) {}

  // Returns a new number. Numbers count from 1 and are never used again.
  CallableId add(ResolvedSignature signature);
  // failed_precondition if it was released, invalid_argument for a number that was never given.
  Result<std::shared_ptr<Callable>> find(CallableId id) const;
  // Removes the callable; its steps in flight continue. Errors are those of find().
  Status release(CallableId id);
  // Removes and returns all callables; the caller frees them without the lock.
  std::map<CallableId, std::shared_ptr<Callable>> clear() { return std::exchange(callables_, {}); }

 private:
  const std::string session_;
  CallableId next_ = 1;
  std::map<CallableId, std::shared_ptr<Callable>> callables_;
};

}  // namespace leat
