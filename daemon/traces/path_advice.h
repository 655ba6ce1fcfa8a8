// The changes that would make the steps of a job faster, by what its critical path shows.
#pragma once

#include <vector>

#include "daemon/traces/critical_path.h"

namespace leat {

// At most three, the one that saves the most first. REQUIRES: all else of the explanation is there.
std::vector<PathAdvice> path_advice(const Explanation& explanation);

}  // namespace leat
