// The version of this build, "0.1.0": what daemons tell each other and people.
#pragma once

#include <string_view>

namespace leat {

std::string_view leat_version();

}  // namespace leat
