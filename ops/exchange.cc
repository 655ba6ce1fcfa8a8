#include "ops/catalogue.h"

namespace leat {

void register_exchange_ops(Catalogue&) {}

}  // namespace leat
