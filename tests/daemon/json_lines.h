// What a command prints with --json: an object a line.
#pragma once

#include <string>

namespace leat {

// The last line that is an object; "{}" if there is none.
std::string last_object(const std::string& lines);

}  // namespace leat
