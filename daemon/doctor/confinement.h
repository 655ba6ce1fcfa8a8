// How runners could be confined on this machine, by a worker of this user.
#pragma once

#include <vector>

#include "daemon/confine/abilities.h"
#include "daemon/doctor/finding.h"

namespace leat {

// A finding for each layer. A pure function.
Findings judge_confinement(const std::vector<LayerState>& layers);

}  // namespace leat
