#include "ops/catalogue.h"

namespace leat {

void register_constant_ops(Catalogue&) {}

}  // namespace leat
