// The CPU's kernels of branches (ops/definitions/branches.h).
#pragma once

#include "ops/graph/op.h"

namespace leat {

// Adds those of leat.Merge, leat.Mask and leat.Enter.
void add_branch_kernels(Catalogue& catalogue);

// Adds the kernels of the conditional ops, made of those that the ops have. REQUIRES: both the
// conditional ops and all other kernels are in the catalogue.
void add_conditional_kernels(Catalogue& catalogue);

}  // namespace leat
