#include "daemon/base/version.h"

namespace leat {

std::string_view leat_version() { return LEAT_VERSION; }

}  // namespace leat
