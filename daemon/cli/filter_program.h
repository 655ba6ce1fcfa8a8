// A program of the machine that reads a text and writes another one, such as spm_encode.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// Starts words[0], which is looked for in PATH, with the other words as arguments; writes `input`
// to its stdin and returns all that it writes to its stdout. The program is killed if no byte moves
// for `quiet`, and is never left behind. Ctrl-C ends it as it ends this process.
//
// failed_precondition if there is no such program, with the words "cannot be started", and if it
// ends with another exit code than 0, with the last line of its stderr; deadline_exceeded after
// `quiet`; resource_exhausted without descriptors. Blocks. Threads: any.
Result<std::string> run_filter(const std::vector<std::string>& words, std::string_view input,
                               std::chrono::milliseconds quiet);

}  // namespace leat
