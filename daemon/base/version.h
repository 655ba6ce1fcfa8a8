// The version of this build, such as "0.1.0", which daemons report to each other and to people.
#pragma once

#include <string_view>

namespace leat {

std::string_view leat_version();

}  // namespace leat
