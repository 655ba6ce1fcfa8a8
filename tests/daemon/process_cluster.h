// A cluster of the real daemons, each a process with ports and folders of its own, on loopback.
// What a test does to them, they are all gone at its end.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/leat_process.h"
#include "tests/daemon/leatd_process.h"
#include "tests/temporary_directory.h"

namespace leat {

struct ProcessClusterOptions {
  int workers = 1;
  int threads = 1;                                    // of each worker
  std::string transports = "[shm, tcp]";              // of each worker
  std::string worker_http = "off";                    // of each worker: "127.0.0.1:0" takes a port
  std::string data_path = {};                         // what the data set "data" is on the workers
  std::vector<std::string> master = {}, worker = {};  // more arguments
};

class ProcessCluster {
 public:
  explicit ProcessCluster(ProcessClusterOptions options);

  LeatdProcess& master() { return *master_; }
  LeatdProcess& worker(int i) { return *workers_[static_cast<size_t>(i)]; }
  // Of the worker "w<i>": i.
  static int number_of(const std::string& worker);
  LeatdProcess& worker(const std::string& name) { return worker(number_of(name)); }
  int workers() const { return static_cast<int>(workers_.size()); }
  // Ends the master by this signal, and starts another with its address and its state.
  void restart_master(int signal);
  // One more of the name "w<i>"; the one that had it before is killed.
  void start_worker(int i);

  // `leat command arguments --master ...` until it ends. Files go to folder().
  Finished leat(const std::string& command, const std::vector<std::string>& arguments);
  const TemporaryDirectory& folder() const { return folder_; }

  // Waits until so many workers are READY, for 20 s at most.
  bool await_ready(int workers);
  // Waits until the job is in one of these states, and returns that; else "" after `patience`.
  std::string await_state(const std::string& job, const std::vector<std::string>& states,
                          std::chrono::seconds patience = std::chrono::seconds(120));
  // `leat show --json`.
  std::string show(const std::string& job);

  // The processes of runners, by what the kernel says of the workers' children.
  std::vector<pid_t> runners() const;
  // Waits until there is none, for 5 s at most: a job that has succeeded ends before they do.
  bool await_no_runners() const;
  // All daemons' logs, for a message.
  std::string logs() const;

 private:
  void start_master(const std::string& listen);

  const ProcessClusterOptions options_;
  TemporaryDirectory folder_;
  std::unique_ptr<LeatdProcess> master_;
  std::vector<std::unique_ptr<LeatdProcess>> workers_;
};

}  // namespace leat
