// Programs that a command starts, and the pipes to them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "transport/io/descriptor.h"

namespace leat {

// A pipe. Programs that are started inherit neither end. Threads: a value.
struct Pipe {
  Descriptor read, write;
};
// resource_exhausted without descriptors.
Result<Pipe> open_pipe();

// The descriptors of this process that a program gets as its standard streams.
struct ProgramStreams {
  int in = -1, out = -1, err = -1;
};

// Starts words[0], which is looked for in PATH, with the other words as arguments, and returns its
// number. Signals have their usual effects in the program, whatever this process does about them.
// With `own_group` Ctrl-C does not reach it. failed_precondition, with the system's words alone, if
// it cannot be started. REQUIRES: there is a word. Threads: any.
Result<pid_t> spawn_program(const std::vector<std::string>& words, const ProgramStreams& streams,
                            bool own_group);

// Waits until the program has ended, but not beyond `until`. Returns its end as waitpid() has it,
// or 0 if this process can learn nothing of it; nothing if the program still runs. REQUIRES: the
// end of the program was not returned before. Threads: any.
std::optional<int> await_end(pid_t pid, std::chrono::steady_clock::time_point until);

// "exit code 3", or "signal 9".
std::string text_of_end(int how);

// While it exists, a write of this thread to a pipe without a reader fails with EPIPE, and raises
// no signal. Threads: the one that makes it.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal();
  ~NoBrokenPipeSignal();
  NoBrokenPipeSignal(const NoBrokenPipeSignal&) = delete;
  NoBrokenPipeSignal& operator=(const NoBrokenPipeSignal&) = delete;

 private:
  sigset_t before_;
};

}  // namespace leat
