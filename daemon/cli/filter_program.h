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
// for `quiet`, or if it goes on for so long after it has closed its stdout and its stderr, and is
// never left behind. Ctrl-C ends it as it ends this process.
//
// failed_precondition if there is no such program, and for nothing else; invalid_argument, with the
// last line of its stderr, if it ends with another exit code than 0, and internal if a signal ends
// it; deadline_exceeded after `quiet`; resource_exhausted without descriptors; unavailable if the
// system cannot wait for it. Blocks. Threads: any.
Result<std::string> run_filter(const std::vector<std::string>& words, std::string_view input,
                               std::chrono::milliseconds quiet);

}  // namespace leat
