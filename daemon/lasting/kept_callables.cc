#include "daemon/lasting/kept_callables.h"

#include "devices/base/text.h"

namespace leat {

Result<CallableId> KeptCallables::inner(CallableId id) const {
  if (const auto found = inner_.find(id); found != inner_.end()) return found->second;
  LEAT_RETURN_IF_ERROR(signature(id).status());
  return failed_precondition(cat(session_, ": callable ", id, " was released"));
}

Result<Signature> KeptCallables::signature(CallableId id) const {
  if (id >= 1 && id <= all_.size()) return all_[id - 1].signature;
  return invalid_argument(cat(session_, ": callable ", id, ": there is none of that number"));
}

Result<Signature> KeptCallables::signature_of(const LoggedStep& step) const {
  if (const auto* signature = std::get_if<Signature>(&step.what)) return *signature;
  return signature(std::get<CallableId>(step.what));
}

}  // namespace leat
