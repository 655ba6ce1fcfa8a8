// The runner's end of the socket that it shares with its worker: descriptor 3, see RunnerBoot in
// daemon/wire/cluster.capnp. The worker sends connections over it, the runner sends pulses.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "daemon/runner/job_runner.h"
#include "devices/base/status.h"

namespace leat {

// Threads: it has one, "worker"; any other thread may make and destroy it.
class WorkerSocket {
 public:
  // `socket` is non-blocking, and the boot message has been read from it; the caller keeps it.
  // `gone` is called once, on the thread, when the worker has closed the socket or has sent
  // something else than a connection.
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
