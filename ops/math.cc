#include "ops/catalogue.h"

namespace leat {

void register_math_ops(Catalogue&) {}

}  // namespace leat
