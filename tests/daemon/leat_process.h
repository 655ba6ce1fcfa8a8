// The real `leat` command as a process, for tests of what a user sees.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace leat {

struct Finished {
  int exit_code = -1;  // 128 + the signal's number if one ended it, as a shell says
  std::string out;
  std::string err;
  // The lines of `err` that begin with "leat: error: ", without that.
  std::vector<std::string> errors() const;
};

// Runs a program in `folder` until it ends, with `environment` changed as ChildProcess says. One
// that takes longer than `patience` is killed, with exit code 137.
Finished run_program(const std::string& binary, const std::string& folder,
                     const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment,
                     std::chrono::seconds patience = std::chrono::minutes(1));

// Where the program `leat` of this build is.
std::string leat_binary();

// Runs `leat arguments...` in `folder`, with the failpoints in its environment.
Finished run_leat(const std::string& folder, const std::vector<std::string>& arguments,
                  const std::string& failpoints = "");

}  // namespace leat
