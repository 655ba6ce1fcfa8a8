// The runner's end of the socket that it shares with its worker: descriptor 3, see RunnerBoot in
// daemon/wire/cluster.capnp. The worker sends connections over it, the runner sends pulses.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "daemon/runner/job_runner.h"
#include "daemon/spec/chaos_fault.h"
#include "daemon/wire/runner_pulse.h"
#include "devices/base/status.h"

namespace leat {

// A pulse goes out every 250 ms; a worker that hears none for 2.5 s kills this process. A pulse is
// left out if the socket is full, since the next one has newer numbers.
// Threads: it has one, "worker"; any other thread may make and destroy it.
class WorkerSocket {
 public:
  // `socket` is non-blocking, and the boot message has been read from it; the caller keeps it.
  // `gone` is called once, on the thread, when the worker has closed the socket or has sent
  // something else than a connection. Starts the thread. `runner` outlives it.
  WorkerSocket(int socket, JobRunner& runner, std::function<void(const Status&)> gone);
  // Shuts the socket down and joins the thread. Not from within `gone`.
  ~WorkerSocket();
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;

  // Asks the worker to commit a fault of chaos: see AskedFault. Does not block, and returns before
  // the fault happens. Threads: any.
  void ask(const ChaosFault& fault);

 private:
  void run();
  // Takes one descriptor with its hello message; gives up after 5 s.
  Status take_connection();
  // Never blocks.
  void send_pulse();

  // The descriptor stays open after the destructor: its owner is the process.
  const int socket_;
  JobRunner& runner_;
  const std::function<void(const Status&)> gone_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  AskedFault asked_;
  std::thread thread_;
};

}  // namespace leat
