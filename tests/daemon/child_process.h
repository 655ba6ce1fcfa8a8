// A program that a test runs, and which ends with the test whatever happens.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace leat {

class ChildProcess {
 public:
  struct Options {
    std::string folder = ".";
    // "NAME=value": in place of the variable of this process. "NAME=": without it.
    std::vector<std::string> environment = {};
    std::string out, err;  // files for stdout and stderr; empty: /dev/null
    int fd_3 = -1;         // what the child has as descriptor 3; -1: nothing
  };

  // Nobody has to read while it runs: its output goes into files and not pipes.
  ChildProcess(const std::string& binary, const std::vector<std::string>& arguments,
               const Options& options);
  ~ChildProcess();  // kills and reaps it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // REQUIRES: it was not reaped.
  void signal(int number);
  // Reaps it: its exit code, or 128 + the signal's number as a shell says. Nothing if it runs on
  // after `patience`.
  std::optional<int> wait(std::chrono::milliseconds patience);
  pid_t pid() const { return pid_; }
  // "signal 9 ended it", "exit code 1", or "" while it runs or once it is reaped.
  std::string how_it_ended() const;

 private:
  pid_t pid_ = -1;  // -1: reaped
};

// The whole file; empty if there is none.
std::string contents_of(const std::string& path);

}  // namespace leat
