// Every op of this build, in one list: ops/catalogue.cc.
#pragma once

#include "ops/graph/op.h"

namespace leat {

Catalogue standard_catalogue();

}  // namespace leat
