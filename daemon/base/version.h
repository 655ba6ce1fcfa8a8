// The version of this build, such as "0.1.0", which daemons report to each other and to people.
#pragma once

#include <string>
#include <string_view>

namespace leat {

std::string_view leat_version();

// The commit of the source, 40 hexadecimal digits, as it was when the build was configured; with
// "+changes" behind it if files differed from it then. "" if the source was no repository, and
// LEAT_COMMIT of CMake did not name one.
std::string_view leat_commit();

// The version with the commit behind it: "0.1.0 9a8a89cd...", or the version alone.
std::string code_version();

}  // namespace leat
