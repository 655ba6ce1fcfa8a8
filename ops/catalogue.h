// The catalogue of all ops of this build; ops/catalogue.cc lists them.
#pragma once

#include "ops/graph/op.h"

namespace leat {

Catalogue standard_catalogue();

}  // namespace leat
