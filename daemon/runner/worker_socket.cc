#include "daemon/runner/worker_socket.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "transport/io/handover.h"

namespace leat {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The worker counts a runner as quiet after half a second, so one pulse may be late.
constexpr std::chrono::milliseconds kPulse{250};
// The time for the rest of a connection that has begun to arrive.
constexpr std::chrono::seconds kHandover{5};

}  // namespace

WorkerSocket::WorkerSocket(int socket, JobRunner& runner, std::function<void(const Status&)> gone)
    : socket_(socket), runner_(runner), gone_(std::move(gone)), thread_([this] { run(); }) {}

WorkerSocket::~WorkerSocket() {
  stopped_.store(true);
  // The shutdown wakes the thread out of poll(), and out of a handover that it waits for.
  ::shutdown(socket_, SHUT_RDWR);
  thread_.join();
}

void WorkerSocket::run() {
  ::pthread_setname_np(::pthread_self(), "worker");
  SteadyClock::time_point next_pulse = SteadyClock::now();
  while (!stopped_.load()) {
    const auto now = SteadyClock::now();
    if (now >= next_pulse) {
      send_pulse();
      next_pulse = now + kPulse;
    }
    // Rounded up, so that poll() does not return just before the pulse is due and spin.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_pulse - SteadyClock::now());
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, std::max(0, static_cast<int>(left.count()))) <= 0) continue;
    const Status taken = take_connection();
    if (taken.ok()) continue;
    // The end of the socket that the destructor causes is no loss of the worker.
    if (!stopped_.load()) gone_(taken);
    return;
  }
}

Status WorkerSocket::take_connection() {
  LEAT_ASSIGN_OR_RETURN(Connection connection, take_over(socket_, SteadyClock::now() + kHandover));
  runner_.arrived(std::move(connection));
  return {};
}

// A pulse for which the socket has no room is left out: the next one has newer numbers.
void WorkerSocket::send_pulse() {
  RunnerPulse pulse = runner_.runs().pulse();
  const std::lock_guard lock(mutex_);
  pulse.fault = asked_;
  const auto bytes = write_pulse(pulse);
  (void)!::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void WorkerSocket::ask(const ChaosFault& fault) {
  {
    const std::lock_guard lock(mutex_);
    ++asked_.number;
    asked_.action = static_cast<uint64_t>(fault.action);
    asked_.is_of_worker = fault.target == ChaosTarget::worker ? 1 : 0;
    asked_.lasts_ms = static_cast<uint64_t>(fault.lasts.count());
  }
  // Every later pulse has it, too, in case that this one is left out.
  send_pulse();
}

}  // namespace leat
