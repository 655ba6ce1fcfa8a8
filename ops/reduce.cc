#include "ops/catalogue.h"

namespace leat {

void register_reduce_ops(Catalogue&) {}

}  // namespace leat
