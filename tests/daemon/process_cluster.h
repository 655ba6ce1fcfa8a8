// A cluster of the real daemons on loopback, each a process with its own ports and folders. All of
// them end with the test in any case.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/leat_process.h"
#include "tests/daemon/leatd_process.h"
#include "tests/temporary_directory.h"

namespace leat {

// The settings of a cluster.
struct ProcessClusterOptions {
  int workers = 1;
  int threads = 1;                        // of each worker
  std::string transports = "[shm, tcp]";  // of each worker
  std::string worker_http = "off";        // of each worker: "127.0.0.1:0" takes a port
  std::string data_path = {};             // the path of the data set "data" on the workers
  std::vector<std::string> master = {}, worker = {};  // more arguments
  std::vector<std::string> client = {};               // the same of `leat`
  // Changes to the environment of these daemons: "NAME=value".
  std::vector<std::string> master_environment = {}, worker_environment = {};
};

// Owns the daemons, one process each.
class ProcessCluster {
 public:
  explicit ProcessCluster(ProcessClusterOptions options);

  LeatdProcess& master() { return *master_; }
  LeatdProcess& worker(int i) { return *workers_[static_cast<size_t>(i)]; }
  // Returns i for the worker "w<i>".
  static int number_of(const std::string& worker);
  LeatdProcess& worker(const std::string& name) { return worker(number_of(name)); }
  int workers() const { return static_cast<int>(workers_.size()); }
  // Ends the master by this signal, and starts another with the same address and state.
  void restart_master(int signal);
  // Starts one more worker with the name "w<i>". Kills the worker that had the name before. `more`:
  // arguments of this worker alone.
  void start_worker(int i, const std::vector<std::string>& more = {});

  // Runs `leat command arguments --master ...` until it ends. Its files go to folder(). A command
  // of two words has the second one first among its arguments.
  Finished leat(const std::string& command, const std::vector<std::string>& arguments);
  const TemporaryDirectory& folder() const { return folder_; }

  // Waits until this number of workers is READY, for 20 s at most. False if that fails.
  bool await_ready(int workers);
  // Waits until the job is in one of these states and returns that state; "" after `patience`.
  std::string await_state(const std::string& job, const std::vector<std::string>& states,
                          std::chrono::seconds patience = std::chrono::seconds(120));
  // Returns the output of `leat show --json`.
  std::string show(const std::string& job);
  // Submits the job of the file with this fault, requires that it succeeds, and returns what show()
  // tells of it.
  std::string run_with_fault(const std::string& job_file, const std::string& fault);

  // Returns the processes of runners, which the kernel lists as the workers' children.
  std::vector<pid_t> runners() const;
  // Waits for all runners to end, 5 s at most: a job that has succeeded ends before they do. False
  // if some remain.
  bool await_no_runners() const;
  // Returns the logs of all daemons, for a message.
  std::string logs() const;

 private:
  void start_master(const std::string& listen);

  const ProcessClusterOptions options_;
  TemporaryDirectory folder_;
  std::unique_ptr<LeatdProcess> master_;
  std::vector<std::unique_ptr<LeatdProcess>> workers_;
};

}  // namespace leat
