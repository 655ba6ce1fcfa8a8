// A runner as its worker holds it: the process, its socket, and its output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/confine/confinement.h"
#include "daemon/confine/runner_users.h"
#include "daemon/jobs/runner_end.h"
#include "daemon/wire/runner_pulse.h"
#include "daemon/worker/runners.h"
#include "transport/io/descriptor.h"

namespace leat {

// Owns the process: it does not outlive the handle. Three descriptors tell of it, which the owner
// polls: exit_descriptor() of its end, output_descriptor() of its lines, and socket() of its
// pulses. No call waits for the runner but the destructor, which has killed it before.
//
// Threads: one thread, which must outlive the process, because the kernel kills a child when the
// thread that started it ends.
class RunnerHandle {
 public:
  // Creates the runner's directory and starts the process. Errors are those of the system, such as
  // resource_exhausted if it cannot start another process.
  static Result<std::unique_ptr<RunnerHandle>> start(const RunnerOrder& order,
                                                     const RunnerSurroundings& surroundings);
  // Kills the process if it still runs, waits for it, ends all that its user still runs, and
  // removes its directory.
  ~RunnerHandle();
  RunnerHandle(const RunnerHandle&) = delete;
  RunnerHandle& operator=(const RunnerHandle&) = delete;

  pid_t pid() const { return pid_; }
  uint64_t incarnation() const { return incarnation_; }
  // Descriptors that become readable when the process ended; when it wrote output; and when it sent
  // a pulse. The output's is -1 once its end was read.
  int exit_descriptor() const { return exit_.get(); }
  int output_descriptor() const { return output_.get(); }
  // -1 once the runner has closed it.
  int socket() const { return hung_up_ ? -1 : socket_.get(); }

  // Sends a signal to the process, unless it has ended.
  void signal(int number) const;
  // The process's state, as state_of() (process_usage.h) returns it: 'R' if it runs.
  char state() const;
  // True if SIGSTOP or a debugger has stopped the process.
  bool is_stopped() const;
  // Returns the lines that it has written so far, without their newlines. A line of more than 4 KiB
  // is cut into several. One call reads at most 128 KiB, so that a runner that writes without end
  // does not keep the thread from the others. At the end of its output, the last line need not have
  // a newline.
  std::vector<std::string> read_output();
  // Returns the last pulse that has arrived since the previous call, if any.
  std::optional<RunnerPulse> next_pulse();
  // Takes the exit status if the process has ended: "was killed by signal 9". Nothing while it
  // runs.
  std::optional<RunnerEnd> reap();

 private:
  RunnerHandle() = default;
  // Starts the program with the descriptors of its end of the pipe and the socket, in namespaces of
  // its own if the confinement says so.
  Status spawn(const RunnerSurroundings& surroundings, const Confinement& confinement, int output,
               int socket);
  // Makes the directory, which belongs to the runner's user.
  Status make_directory(const std::string& parent);
  // Moves whole lines from unfinished_ to `lines`; at the end, the rest as well.
  void take_lines(std::vector<std::string>& lines, bool at_end);

  pid_t pid_ = -1;
  bool reaped_ = false;   // the system may give the process id to another process from then on
  bool hung_up_ = false;  // the descriptor stays open, because another thread may be using it
  uint64_t incarnation_ = 0;
  uint64_t memory_limit_ = 0;  // for its counted memory; 0: none
  bool is_of_share_ = false;   // the limit is that of the job's share of the worker
  std::string directory_;
  RunnerUser user_;                // that no other runner has; none: the worker's
  bool may_leave_others_ = false;  // processes of its user, which do not end with it
  Descriptor exit_, output_, socket_;
  std::string unfinished_;         // a line without its newline yet
  std::vector<std::byte> unread_;  // bytes of pulses
};

}  // namespace leat
