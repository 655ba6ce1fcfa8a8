// Compares text with a file in tests/scheduler/golden/.
#pragma once

#include <string>

namespace leat {

// Checks that the file has this text. With LEAT_WRITE_GOLDEN in the environment, writes it first.
void check_golden(const std::string& name, const std::string& text);

}  // namespace leat
