// Gzip files for tests of readers.
#pragma once

#include <string>

namespace leat {

std::string gzipped(const std::string& text);

}  // namespace leat
