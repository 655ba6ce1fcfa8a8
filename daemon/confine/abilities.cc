#include "daemon/confine/abilities.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/confine/call_list.h"
#include "daemon/confine/landlock.h"
#include "devices/base/text.h"

namespace leat {

const int kNamespacesOfRunner = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;

namespace {

Status try_namespaces() {
  const auto child = static_cast<pid_t>(
      ::syscall(SYS_clone, kNamespacesOfRunner | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) ::_exit(0);
  if (child > 0) {
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return {};
  }
  if (errno == EPERM) return failed_precondition("the worker lacks CAP_SYS_ADMIN");
  return system_error("the kernel", errno);
}

}  // namespace

ConfineAbilities find_abilities(UserRange users) {
  ConfineAbilities found;
  const auto shared = shared_path();
  const Status may = may_change_users();
  found.user = !may.ok()     ? may
               : shared.ok() ? RunnerUsers::open(users, *shared).status()
                             : shared.status();
  found.namespaces = try_namespaces();
  const auto version = landlock_version();
  found.files = version.status();
  if (version.ok()) found.landlock = *version;
  found.calls = can_filter_calls();
  return found;
}

std::vector<LayerState> expected_layers(const ConfineAbilities& abilities, bool reads_all) {
  const auto layer = [](ConfineLayer which, const Status& status, std::string how = {}) {
    return LayerState{which, status.ok(), status.ok() ? std::move(how) : status.message()};
  };
  const Status all = failed_precondition(kReadsAll);
  return {layer(ConfineLayer::user, reads_all ? all : abilities.user),
          layer(ConfineLayer::calls, abilities.calls),
          layer(ConfineLayer::limits, {}),
          layer(ConfineLayer::files, abilities.files, cat("Landlock ", abilities.landlock)),
          layer(ConfineLayer::root, !abilities.namespaces.ok() ? abilities.namespaces
                                    : reads_all                ? all
                                                               : abilities.user),
          layer(ConfineLayer::processes, abilities.namespaces),
          layer(ConfineLayer::ipc, abilities.namespaces),
          layer(ConfineLayer::network, failed_precondition(kNoNetwork)),
          layer(ConfineLayer::cgroup, failed_precondition(kNoCgroup))};
}

}  // namespace leat
