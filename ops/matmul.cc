#include "ops/catalogue.h"

namespace leat {

void register_matmul_ops(Catalogue&) {}

}  // namespace leat
