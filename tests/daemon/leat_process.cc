#include "tests/daemon/leat_process.h"

#include <signal.h>

#include <sstream>
#include <string_view>

#include "tests/daemon/child_process.h"
#include "tests/temporary_directory.h"

namespace leat {

std::vector<std::string> Finished::errors() const {
  constexpr std::string_view kStart = "leat: error: ";
  std::vector<std::string> out;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kStart)) out.push_back(line.substr(kStart.size()));
  }
  return out;
}

Finished run_program(const std::string& binary, const std::string& folder,
                     const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment, std::chrono::seconds patience) {
  const TemporaryDirectory captured;
  const std::string out = captured / "out", err = captured / "err";
  ChildProcess child(binary, arguments,
                     {.folder = folder, .environment = environment, .out = out, .err = err});
  const auto ended = child.wait(patience);
  return {ended.value_or(128 + SIGKILL), contents_of(out), contents_of(err)};
}

std::string leat_binary() { return LEAT_BINARY; }

Finished run_leat(const std::string& folder, const std::vector<std::string>& arguments,
                  const std::string& failpoints) {
  return run_program(LEAT_BINARY, folder, arguments, {"LEAT_FAILPOINTS=" + failpoints});
}

}  // namespace leat
