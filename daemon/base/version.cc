#include "daemon/base/version.h"

namespace leat {

std::string_view leat_version() { return LEAT_VERSION; }

std::string_view leat_commit() { return LEAT_COMMIT; }

std::string code_version() {
  std::string text(leat_version());
  if (!leat_commit().empty()) text.append(" ").append(leat_commit());
  return text;
}

}  // namespace leat
