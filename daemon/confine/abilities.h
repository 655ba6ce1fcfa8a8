// The layers of confinement that this process could give to the runners that it starts.
#pragma once

#include <vector>

#include "daemon/confine/confinement.h"
#include "daemon/confine/runner_users.h"
#include "devices/base/status.h"

namespace leat {

// Each is ok, or has the reason why it cannot be had.
struct ConfineAbilities {
  Status user, namespaces, files, calls;
  int landlock = 0;  // its version
};

// Tries what can be tried: it starts a process for a moment, and changes nothing that lasts.
ConfineAbilities find_abilities(UserRange users);

// The layers of runners with these abilities. A pure function. `reads_all`: see Confinement.
std::vector<LayerState> expected_layers(const ConfineAbilities& abilities, bool reads_all);

// Why runners that may read all files of the worker's user have no user of their own.
inline constexpr const char* kReadsAll = "local_paths lets jobs read as the worker's user";
inline constexpr const char* kNoNetwork = "runners dial their master and their peers themselves";
inline constexpr const char* kNoCgroup = "Leat makes none: set the limits of the worker's unit";

// The namespaces that a runner is started in, as flags of clone().
extern const int kNamespacesOfRunner;

}  // namespace leat
