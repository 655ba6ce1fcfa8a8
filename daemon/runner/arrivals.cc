#include "daemon/runner/arrivals.h"

#include "devices/base/text.h"

namespace leat {

RunnerAssembly Arrivals::assembly() const {
  std::lock_guard lock(mutex_);
  return assembly_;
}

void Arrivals::advance(const RunnerAssembly& to) {
  std::lock_guard lock(mutex_);
  assembly_ = to;
  // The connections that wait have proved the old assembly's key, which no later run accepts.
  waiting_.clear();
}

// The identity as far as it is known before the run is. The rest is taken from the dialer, and
// checked when a run takes the connection.
Identity Arrivals::addressed_here(const Identity& said) const {
  Identity identity = said;
  identity.assembly = assembly().number;
  identity.destination_incarnation = options_.incarnation;
  return identity;
}

// The gate of the process's own unix socket. The reactor's thread calls it, so it must not block.
std::optional<Listener::Expected> Arrivals::expect(const LinkHello& hello) {
  return Listener::Expected{addressed_here(hello.identity), assembly().key};
}

// The unix socket is for shared memory alone. TCP sockets come through the worker, see add().
void Arrivals::accepted(Connection connection) {
  if (connection.hello.role == SocketRole::shm) return keep(std::move(connection));
  refused(failed_precondition("handshake with a dialer: role: expected shared memory"));
}

void Arrivals::refused(const Status& why) {
  options_.log.warning("a connection was dropped: ", why.message());
}

// The worker's data port has checked the key and the assembly, as it knows them. The assembly of
// this process may have changed since, so it checks them again.
void Arrivals::add(Connection connection) {
  const Identity expected = addressed_here(connection.hello.identity);
  const LinkRefusal refusal = judge(expected, connection.hello);
  if (refusal != LinkRefusal::none)
    return refused(explain(refusal, expected, connection.hello, "a dialer"));
  if (connection.hello.role == SocketRole::shm)
    return refused(failed_precondition("handshake with a dialer: role: expected a socket's"));
  keep(std::move(connection));
}

void Arrivals::keep(Connection connection) {
  const Deadline now = std::chrono::steady_clock::now();
  {
    std::lock_guard lock(mutex_);
    // Connections whose runs did not come in time make room for new ones.
    waiting_.remove_if([&](const Waiting& one) { return one.until <= now; });
    if (waiting_.size() < options_.most) {
      waiting_.push_back({std::move(connection), now + options_.patience});
      changed_.notify_all();
      return;
    }
  }
  refused(resource_exhausted(
      cat("handshake with a dialer: ", options_.most, " connections wait for their runs")));
}

// Drops connections for the same place that do not have the expected identity.
std::optional<Connection> Arrivals::find(const Identity& expected, SocketRole role) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const LinkHello& hello = it->connection.hello;
    if (hello.identity.run != expected.run || hello.identity.source != expected.source ||
        hello.identity.destination != expected.destination || hello.role != role) {
      ++it;
      continue;
    }
    Connection connection = std::move(it->connection);
    it = waiting_.erase(it);
    const LinkRefusal refusal = judge(expected, connection.hello);
    if (refusal == LinkRefusal::none) return connection;
    refused(explain(refusal, expected, connection.hello, "a dialer"));
  }
  return std::nullopt;
}

Result<Connection> Arrivals::take(const Identity& expected, SocketRole role, Deadline deadline,
                                  const std::function<Status()>& given_up) {
  std::unique_lock lock(mutex_);
  // After the timeout it looks once more, because a connection may have come together with the
  // timeout.
  for (bool late = false;;) {
    LEAT_RETURN_IF_ERROR(given_up());
    if (auto connection = find(expected, role)) return std::move(*connection);
    if (late) return deadline_exceeded("it did not dial in time");
    late = changed_.wait_until(lock, deadline) == std::cv_status::timeout;
  }
}

void Arrivals::wake() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

size_t Arrivals::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

}  // namespace leat
