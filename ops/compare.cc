#include "ops/catalogue.h"

namespace leat {

void register_compare_ops(Catalogue&) {}

}  // namespace leat
