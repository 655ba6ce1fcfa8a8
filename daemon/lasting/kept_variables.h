// The variables of a lasting session on hosts that come and go: which of them the hosts have, and
// the saved values of the others.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/hosts/host_group.h"
#include "daemon/lasting/session_log.h"
#include "devices/base/status.h"

namespace leat {

// Threads: one at a time. REQUIRES for all functions: no step runs.
class KeptVariables {
 public:
  // The hosts have none of the state.
  void begin(SavedState state) {
    to_place_ = std::move(state.variables);
    placed_.clear();
  }
  // Writes the values of the variables of a plan that the hosts have just registered: the saved
  // ones, or zeros. Errors: those of the hosts.
  Status place(const Plan& plan, const HostGroup& hosts, const std::string& job);
  // All variables as they are now, by task and name. Errors: those of the hosts.
  Result<std::map<std::string, std::map<std::string, Tensor>>> read(const HostGroup& hosts,
                                                                    const std::string& job) const;

 private:
  Status place_on(HostHandle& host, const std::string& job, const std::set<std::string>& names);

  std::map<std::string, std::map<std::string, Tensor>> to_place_;
  std::set<std::pair<std::string, std::string>> placed_;  // task and name
};

}  // namespace leat
