#include "daemon/jobs/lost_assembly.h"

#include <algorithm>
#include <array>

namespace leat {
namespace {

// In the order of GoesOnFrom, whose numbers are in the journal.
constexpr std::array<std::string_view, 4> kSourceNames = {"", "start", "checkpoint", "memory"};

}  // namespace

std::string_view name_of(RecoverySource from) { return kSourceNames[static_cast<size_t>(from)]; }

RecoverySource recovery_source_named(std::string_view name) {
  const auto found = std::find(kSourceNames.begin(), kSourceNames.end(), name);
  return found == kSourceNames.end() ? RecoverySource::unknown
                                     : static_cast<RecoverySource>(found - kSourceNames.begin());
}

std::optional<uint64_t> LostAssembly::recomputed() const {
  if (stopped_at < 0 || went_on_from < 0) return std::nullopt;
  // The master may have heard of fewer steps than the runners had done, so the difference can be
  // negative: then no step is known to have been done twice.
  return static_cast<uint64_t>(std::max<int64_t>(0, stopped_at - went_on_from));
}

void JobHistory::put(const LostAssembly& lost) {
  // The entry of an assembly is completed later, when the next assembly has done its first step.
  const auto found = std::find_if(last.begin(), last.end(), [&](const LostAssembly& each) {
    return each.assembly == lost.assembly;
  });
  if (found != last.end()) {
    *found = lost;
    return;
  }
  last.push_back(lost);
  // The number counts all lost assemblies, also those that are not kept, and the journal returns
  // only the last of them: the count cannot be the size of the list.
  count = std::max(count, lost.number);
  if (last.size() > kKept) last.erase(last.begin());
}

}  // namespace leat
