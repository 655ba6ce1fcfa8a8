// The real `leatd` as a process: run until it ends, or as a daemon that a test starts, uses and
// stops.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/daemon/child_process.h"
#include "tests/daemon/leat_process.h"
#include "tests/temporary_directory.h"

namespace leat {

// Runs `leatd arguments...` in `folder` until it ends.
Finished run_leatd(const std::string& folder, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment = {});

// One daemon, whose ports the arguments should set to 0. It ends with this object in any case:
//
//   LeatdProcess master({"master", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", ...});
//   LeatdProcess worker({"worker", "--master", master.ready().listen, ...});
//   CHECK(worker.stop() == 0);
class LeatdProcess {
 public:
  // The addresses that the daemon reports once it is ready; empty for a port that it does not have.
  struct Ready {
    std::string listen, http, data;
    int64_t pid = 0;
  };

  explicit LeatdProcess(std::vector<std::string> arguments,
                        const std::vector<std::string>& environment = {});
  ~LeatdProcess();

  // Waits until it is ready. Fails the test, with the log, if it ends or takes longer than 20 s.
  const Ready& ready();
  // Sends SIGTERM and returns the exit code. Fails the test if that takes longer than 25 s.
  int stop();
  // Waits for a process that ends without a signal, and returns its exit code. Fails the test after
  // 25 s.
  int wait();
  void signal(int number) { child_->signal(number); }
  pid_t pid() const { return child_->pid(); }
  // Returns its stderr so far, and, if it has ended, how.
  std::string log() const;
  const TemporaryDirectory& folder() const { return folder_; }

 private:
  TemporaryDirectory folder_;
  int ready_fd_ = -1;
  std::optional<ChildProcess> child_;
  std::optional<Ready> ready_;
};

}  // namespace leat
