// One runner as its worker holds it: the process, its socket, its output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/runner_end.h"
#include "daemon/wire/runner_pulse.h"
#include "daemon/worker/runners.h"
#include "transport/io/descriptor.h"

namespace leat {

// Threads: one, which outlives the process: the kernel kills a child whose parent's thread ends.
class RunnerHandle {
 public:
  // Makes its directory and starts it. resource_exhausted if the system has no room for it.
  static Result<std::unique_ptr<RunnerHandle>> start(const RunnerOrder& order,
                                                     const RunnerSurroundings& surroundings);
  // Kills it if it still runs, waits, and removes its directory.
  ~RunnerHandle();
  RunnerHandle(const RunnerHandle&) = delete;
  RunnerHandle& operator=(const RunnerHandle&) = delete;

  pid_t pid() const { return pid_; }
  uint64_t incarnation() const { return incarnation_; }
  // Ready to read: when the process ended; when it wrote; when it said something.
  int exit_descriptor() const { return exit_.get(); }
  int output_descriptor() const { return output_.get(); }
  // -1 once the runner has closed it.
  int socket() const { return hung_up_ ? -1 : socket_.get(); }

  void signal(int number) const;
  // By SIGSTOP or a debugger.
  bool is_stopped() const;
  // The lines that it has written so far. At the end of its output, also one without a newline.
  std::vector<std::string> read_output();
  // The last of the pulses that have come since the call before, if any did.
  std::optional<RunnerPulse> next_pulse();
  // Takes its exit status: "was killed by signal 9". Nothing if it still runs.
  std::optional<RunnerEnd> reap();

 private:
  RunnerHandle() = default;
  Status spawn(const RunnerSurroundings& surroundings, int output, int socket);
  void take_lines(std::vector<std::string>& lines, bool at_end);

  pid_t pid_ = -1;
  bool reaped_ = false;
  bool hung_up_ = false;  // the descriptor stays: another thread may be using it
  uint64_t incarnation_ = 0;
  uint64_t memory_limit_ = 0;  // of what it is told; 0: none
  std::string directory_;
  Descriptor exit_, output_, socket_;
  std::string unfinished_;         // line
  std::vector<std::byte> unread_;  // bytes of pulses
};

}  // namespace leat
