// Reads the output of a command with --json, which has one object in each line.
#pragma once

#include <string>

namespace leat {

// Returns the last line that is an object; "{}" if there is none.
std::string last_object(const std::string& lines);

}  // namespace leat
