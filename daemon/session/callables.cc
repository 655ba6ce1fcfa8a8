#include "daemon/session/callables.h"

#include "devices/base/text.h"

namespace leat {

CallableId Callables::add(ResolvedSignature signature) {
  // Numbers are never used again, so a late call of a released callable cannot run another one.
  const CallableId id = next_++;
  callables_[id] = std::make_shared<Callable>(Callable{std::move(signature), nullptr});
  return id;
}

Result<std::shared_ptr<Callable>> Callables::find(CallableId id) const {
  const auto found = callables_.find(id);
  if (found != callables_.end()) return found->second;
  // Every number below next_ was given once, so the two errors need no list of released ones.
  if (id > 0 && id < next_) return failed_precondition(cat("callable ", id, ": was released"));
  return invalid_argument(cat("callable ", id, ": ", session_, " never made one of that number"));
}

Status Callables::release(CallableId id) {
  // A step in flight keeps its own pointer to the plan and is not concerned.
  LEAT_RETURN_IF_ERROR(find(id).status());
  callables_.erase(id);
  return {};
}

}  // namespace leat
