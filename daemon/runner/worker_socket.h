// The runner's end of the socket that it shares with its worker: descriptor 3, see RunnerBoot in
// daemon/wire/cluster.capnp. Connections come in over it, pulses go out.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "daemon/runner/job_runner.h"
#include "devices/base/status.h"

namespace leat {

// Threads: one of its own, "worker"; made and destroyed by any other.
class WorkerSocket {
 public:
  // `socket` is non-blocking, has brought the boot message, and stays the caller's. `gone` is
  // called once, on the thread, when the worker has closed it or has sent what is no connection.
  WorkerSocket(int socket, JobRunner& runner, std::function<void(const Status&)> gone);
  ~WorkerSocket();
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;

 private:
  void run();
  Status take_connection();
  void send_pulse();

  const int socket_;
  JobRunner& runner_;
  const std::function<void(const Status&)> gone_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace leat
