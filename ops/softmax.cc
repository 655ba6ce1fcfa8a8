#include "ops/catalogue.h"

namespace leat {

void register_softmax_ops(Catalogue&) {}

}  // namespace leat
