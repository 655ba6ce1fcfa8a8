// A program that a test runs. It ends with the test in any case.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace leat {

// Owns a process from its start until it is reaped.
class ChildProcess {
 public:
  struct Options {
    std::string folder = ".";
    // "NAME=value" replaces a variable of this process, and "NAME=" removes it.
    std::vector<std::string> environment = {};
    std::string out = {}, err = {};  // files for stdout and stderr; empty: /dev/null
    int fd_3 = -1;                   // the descriptor that the child gets as 3; -1: none
  };

  // Starts the program. Its output goes into files instead of pipes, so that it never waits for a
  // reader.
  ChildProcess(const std::string& binary, const std::vector<std::string>& arguments,
               const Options& options);
  ~ChildProcess();  // kills and reaps it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Sends a signal. After SIGSTOP, the child has stopped: a signal is delivered some time after it
  // is sent. REQUIRES: the child was not reaped.
  void signal(int number);
  // Reaps the child and returns its exit code, or 128 + the signal's number as a shell does.
  // Nothing if the child still runs after `patience`.
  std::optional<int> wait(std::chrono::milliseconds patience);
  pid_t pid() const { return pid_; }
  // Returns "signal 9 ended it", "exit code 1", or "" while it runs or once it is reaped.
  std::string how_it_ended() const;

 private:
  pid_t pid_ = -1;  // -1: reaped
};

// Returns the content of a file; empty if there is none.
std::string contents_of(const std::string& path);

}  // namespace leat
