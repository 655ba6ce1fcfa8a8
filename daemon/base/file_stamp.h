// Tells whether a file has been replaced or changed.
#pragma once

#include <string>

namespace leat {

// The number, size and time of the file, as a text that differs once the file has changed; "" if it
// cannot be looked at.
std::string file_stamp(const std::string& path);

}  // namespace leat
