#include "transport/catalogue.h"

#include <future>
#include <mutex>

#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "transport/io/handshake.h"
#include "transport/io/listener.h"
#include "transport/local/local_link.h"
#include "transport/shm/shm_link.h"
#include "transport/tcp/tcp_link.h"

namespace leat {
namespace {

// Both ends are in this process, so that only a fault takes so long.
constexpr std::chrono::seconds kPairTimeout{10};

// Slots in host memory, as those of a partition on a CPU.
Status open_slots(const LinkSetup& setup) {
  cpu::CpuDevice device(0, 1);
  for (const LinkEdge& edge : setup.incoming)
    LEAT_RETURN_IF_ERROR(setup.slots->open(edge.edge, edge.bytes, device));
  return {};
}

Result<LinkPair> local_pair(LinkSetup a, LinkSetup b, std::chrono::microseconds) {
  LEAT_RETURN_IF_ERROR(open_slots(a));
  LEAT_RETURN_IF_ERROR(open_slots(b));
  LinkPair pair;
  std::tie(pair.a, pair.b) = local::make_links(std::move(a), std::move(b));
  return pair;
}

// A gate that lets in every dialer with one identity, and gives each socket to the thread that
// waits for its role.
// Threads: accepted() on the reactor's, take() on one other.
class PairGate final : public Listener::Gate {
 public:
  explicit PairGate(Listener::Expected expected) : expected_(std::move(expected)) {}
  std::optional<Listener::Expected> expect(const LinkHello&) override { return expected_; }
  void accepted(Connection connection) override {
    std::lock_guard lock(mutex_);
    accepted_[connection.hello.role == SocketRole::bulk].set_value(std::move(connection.socket));
  }
  Result<Wire> take(SocketRole role, Deadline deadline) {
    auto future = accepted_[role == SocketRole::bulk].get_future();
    if (future.wait_until(deadline) != std::future_status::ready)
      return deadline_exceeded("a pair of links: the dialer did not come");
    return Wire(future.get());
  }

 private:
  const Listener::Expected expected_;
  std::mutex mutex_;
  std::promise<Descriptor> accepted_[2];
};

// The two ends of one connection.
struct SocketPair {
  Wire dialed, accepted;
};

// Dials the listener of this process and waits until it has accepted.
Result<SocketPair> dial_pair(const Listener& listener, PairGate& gate, SocketRole role,
                             uint64_t features, const Listener::Expected& expected,
                             Deadline deadline) {
  LinkHello hello;
  hello.identity = expected.identity;
  hello.role = role;
  hello.features = features;
  LEAT_ASSIGN_OR_RETURN(Connection connection,
                        dial(listener.address(), hello, expected.key, deadline));
  SocketPair pair{std::move(connection.socket), {}};
  LEAT_ASSIGN_OR_RETURN(pair.accepted, gate.take(role, deadline));
  if ((features & kSealed) == 0) return pair;
  const TlsKey key = seal_key(expected.key, connection.hello);
  // Each end waits for what the other one says.
  auto other = std::async(std::launch::async, [&] {
    return pair.accepted.seal(TlsSession::Side::server, key, deadline, "the dialer");
  });
  const Status dialed = pair.dialed.seal(TlsSession::Side::client, key, deadline, "the listener");
  const Status accepted = other.get();
  LEAT_RETURN_IF_ERROR(dialed);
  LEAT_RETURN_IF_ERROR(accepted);
  return pair;
}

// Each link has an io thread of its own, as in two processes.
Result<LinkPair> network_pair(LinkSetup a, LinkSetup b, std::chrono::microseconds spin,
                              uint64_t features) {
  struct Threads {
    explicit Threads(std::chrono::microseconds spin) : a(spin), b(spin) {}
    Reactor a, b;
  };
  LEAT_RETURN_IF_ERROR(open_slots(a));
  LEAT_RETURN_IF_ERROR(open_slots(b));
  const Deadline deadline = std::chrono::steady_clock::now() + kPairTimeout;
  auto threads = std::make_shared<Threads>(spin);
  // The key is random, so that no other process of the machine can take the place of an end.
  const Listener::Expected expected{Identity{}, link_nonce()};
  PairGate gate(expected);
  LEAT_ASSIGN_OR_RETURN(const auto listener,
                        Listener::open(threads->b, "127.0.0.1:0", gate, Listener::Options()));
  LEAT_ASSIGN_OR_RETURN(SocketPair express,
                        dial_pair(*listener, gate, SocketRole::express, features, expected, deadline));
  SocketPair bulk;
  if (tcp::needs_bulk(a)) {
    LEAT_ASSIGN_OR_RETURN(
        bulk, dial_pair(*listener, gate, SocketRole::bulk, features, expected, deadline));
  }
  LinkPair pair;
  LEAT_ASSIGN_OR_RETURN(pair.a, tcp::make_link(threads->a, std::move(express.dialed),
                                               std::move(bulk.dialed), std::move(a)));
  LEAT_ASSIGN_OR_RETURN(pair.b, tcp::make_link(threads->b, std::move(express.accepted),
                                               std::move(bulk.accepted), std::move(b)));
  pair.threads = std::move(threads);
  return pair;
}

Result<LinkPair> tcp_pair(LinkSetup a, LinkSetup b, std::chrono::microseconds spin) {
  return network_pair(std::move(a), std::move(b), spin, 0);
}

Result<LinkPair> tls_pair(LinkSetup a, LinkSetup b, std::chrono::microseconds spin) {
  return network_pair(std::move(a), std::move(b), spin, kSealed);
}

// The handshake is left out: a pair of unix sockets belongs to this process anyway.
Result<LinkPair> shm_pair(LinkSetup a, LinkSetup b, std::chrono::microseconds spin) {
  struct Threads {
    Reactor io_a, io_b;
    std::unique_ptr<shm::Waiter> a, b;
  };
  const Deadline deadline = std::chrono::steady_clock::now() + kPairTimeout;
  auto threads = std::make_shared<Threads>();
  LEAT_ASSIGN_OR_RETURN(threads->a, shm::Waiter::create(spin));
  LEAT_ASSIGN_OR_RETURN(threads->b, shm::Waiter::create(spin));
  LEAT_ASSIGN_OR_RETURN(auto sockets, socket_pair());
  LEAT_ASSIGN_OR_RETURN(auto arena_a, shm::Arena::create(a.incoming));
  LEAT_ASSIGN_OR_RETURN(auto arena_b, shm::Arena::create(b.incoming));
  arena_a.open_slots(*a.slots);
  arena_b.open_slots(*b.slots);
  // Each end waits for what the other one sends, so they are made on two threads.
  auto other = std::async(std::launch::async, [&] {
    return shm::make_link(threads->io_b, *threads->b, std::move(sockets.second), std::move(arena_b),
                          std::move(b), deadline);
  });
  LinkPair pair;
  auto made = shm::make_link(threads->io_a, *threads->a, std::move(sockets.first),
                             std::move(arena_a), std::move(a), deadline);
  // Both results are taken before either error returns: the other thread uses variables of this
  // function.
  auto made_other = other.get();
  LEAT_ASSIGN_OR_RETURN(pair.a, std::move(made));
  LEAT_ASSIGN_OR_RETURN(pair.b, std::move(made_other));
  pair.threads = std::move(threads);
  return pair;
}

}  // namespace

std::vector<Transport> transports() {
  return {
      {"local", "process", false, false, local_pair},
      {"shm", "host", true, true, shm_pair},
      {"tcp", "network", true, true, tcp_pair},
      {"tls", "network", true, true, tls_pair},
  };
}

}  // namespace leat
