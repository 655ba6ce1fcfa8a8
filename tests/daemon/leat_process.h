// The real `leat` command as a process, for tests of what a user sees.
#pragma once

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

// Runs `leat arguments...` in `folder` until it ends, with the failpoints in its environment. One
// that takes longer than a minute is killed.
Finished run_leat(const std::string& folder, const std::vector<std::string>& arguments,
                  const std::string& failpoints = "");

}  // namespace leat
