// The real `leat` command as a process, for tests of its output and exit codes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace leat {

// The exit code and the output of a process that has ended.
struct Finished {
  int exit_code = -1;  // 128 + the signal's number after a signal, as in a shell
  std::string out;
  std::string err;
  // Returns the rest of each line of `err` that begins with "leat: error: ".
  std::vector<std::string> errors() const;
};

// Runs a program in `folder` until it ends, with the changes of ChildProcess to its environment.
// Kills a program that takes longer than `patience`; its exit code is then 137.
Finished run_program(const std::string& binary, const std::string& folder,
                     const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment,
                     std::chrono::seconds patience = std::chrono::minutes(4));

// The path of this build's `leat`.
std::string leat_binary();

// Runs `leat arguments...` in `folder`, with `failpoints` in its environment.
Finished run_leat(const std::string& folder, const std::vector<std::string>& arguments,
                  const std::string& failpoints = "");

}  // namespace leat
