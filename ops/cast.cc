#include "ops/catalogue.h"

namespace leat {

void register_cast_ops(Catalogue&) {}

}  // namespace leat
