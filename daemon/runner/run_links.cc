#include "daemon/runner/run_links.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>

#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/runtime/places.h"
#include "transport/shm/shm_link.h"
#include "transport/tcp/tcp_link.h"

namespace leat {
namespace {

// A reachable host answers in far less time, and is asked twice within it. A host that is cut off
// is noticed no later than on an open link.
constexpr std::chrono::milliseconds kDialDeadline{2000};
// The system itself would ask again after 1 s and 3 s; this finds a path that heals sooner.
constexpr std::chrono::milliseconds kAsk{500};

// As dial(), but asks again while nothing answers. An address that refuses is an error at once.
Result<Connection> dial_again(const std::string& address, LinkHello hello, Seal seal,
                              const RunKey& key, Deadline deadline) {
  while (true) {
    const Deadline asked = std::chrono::steady_clock::now() + kAsk;
    auto socket = connect_socket(address, std::min(deadline, asked));
    if (socket.ok()) {
      const bool sealed =
          hello.role != SocketRole::shm && is_required(seal, is_local(socket->get()));
      if (sealed) hello.features |= kSealed;
      return greet(std::move(*socket), hello, key, deadline, address);
    }
    if (socket.status().code() != Code::deadline_exceeded || asked >= deadline)
      return socket.status();
  }
}

// The name of a host in messages: its node, or its task if it has no node.
std::string name_of(const Endpoint& endpoint) {
  return endpoint.node.empty() ? cat("task ", endpoint.task) : endpoint.node;
}

}  // namespace

Result<Carrier> choose_carrier(std::string_view transport, const Endpoint& here,
                               const Endpoint& there) {
  const auto no_way = [&](std::string_view what) {
    return failed_precondition(
        cat("transport ", transport, " from ", name_of(here), " to ", name_of(there), ": ", what));
  };
  const bool may_share = !here.unix_address.empty() && !there.unix_address.empty();
  const bool one_machine = !here.machine.empty() && here.machine == there.machine;
  if (transport == "shm" && !may_share) return no_way("expected both to allow shared memory");
  if (transport == "shm" && !one_machine)
    return no_way("expected both on one machine, where they can share memory");
  // Both ends decide this by themselves. Each condition is symmetric, so they agree.
  if (transport != "tcp" && may_share && one_machine) return Carrier::shm;
  return Carrier::tcp;
}

bool RunLinks::is_here(uint32_t partition) const {
  return partition == setup_.partition ||
         (partition < setup_.here.size() && setup_.here[partition]);
}

Identity RunLinks::identity_with(uint32_t partition) const {
  Identity identity;
  identity.cluster = setup_.cluster;
  identity.assembly = setup_.assembly;
  identity.run = setup_.run;
  identity.plan = setup_.plan;
  // The partition with the lower number dials, so it is the source at both ends.
  identity.source = std::min(setup_.partition, partition);
  identity.destination = std::max(setup_.partition, partition);
  identity.source_incarnation = setup_.peers[identity.source].incarnation;
  identity.destination_incarnation = setup_.peers[identity.destination].incarnation;
  return identity;
}

Status RunLinks::cancelled_with() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

void RunLinks::cancel(const Status& cause) {
  {
    std::lock_guard lock(mutex_);
    if (!cancelled_.ok()) return;
    cancelled_ = cause;
    // The shutdown ends the exchange of memory or the handshake that open() may be waiting in.
    if (in_progress_) ::shutdown(in_progress_.get(), SHUT_RDWR);
    // Wires that wait for the other end stop to wait.
    if (connecting_) connecting_->cancel(cause);
  }
  // Without the lock, because take() asks cancelled_with(), which locks mutex_ under the lock of
  // Arrivals.
  threads_.arrivals.wake();
}

Result<std::vector<RunLinks::Peer>> RunLinks::find_peers(HostedPartition& run) const {
  const Plan& plan = run.plan();
  std::vector<Peer> peers(plan.partitions.size());
  // Sort the edges of this partition by peer, in ascending order, as LinkSetup wants them.
  for (uint32_t e = 0; e < plan.edges.size(); ++e) {
    const PlanEdge& edge = plan.edges[e];
    if (is_here(edge.from) && is_here(edge.to)) continue;
    if (edge.to == setup_.partition) peers[edge.from].setup.incoming.push_back({e, edge.bytes});
    if (edge.from == setup_.partition) peers[edge.to].setup.outgoing.push_back({e, edge.bytes});
  }
  // Choose a carrier for each peer that has edges. An impossible one fails here, before any
  // dialing.
  const Endpoint& here = setup_.peers[setup_.partition];
  for (uint32_t p = 0; p < peers.size(); ++p) {
    Peer& peer = peers[p];
    if (!peer.linked()) continue;
    peer.setup.self = name_of(here);
    peer.setup.peer = name_of(setup_.peers[p]);
    peer.setup.slots = &run.slots();
    peer.setup.on_failure = setup_.on_failure;
    LEAT_ASSIGN_OR_RETURN(peer.carrier, choose_carrier(setup_.transport, here, setup_.peers[p]));
    peer.wire = direct::choose_wire(here, setup_.peers[p]);
    // The master names the kinds that a runner has told it, and no others.
    const auto& allowed = setup_.gpu_wires;
    if (peer.wire && std::find(allowed.begin(), allowed.end(), *peer.wire) == allowed.end()) {
      return failed_precondition(cat("wires of kind ", name_of(*peer.wire), " from ",
                                     peer.setup.self, " to ", peer.setup.peer, ": ",
                                     peer.setup.self, " may not use them"));
    }
    if (peer.carrier == Carrier::tcp && !setup_.may_use_tcp) {
      return failed_precondition(cat("transport tcp from ", peer.setup.self, " to ",
                                     peer.setup.peer, ": ", peer.setup.self, " may not use it"));
    }
  }
  return peers;
}

// Makes the outbox for values that go to several peers over shared memory.
Result<std::shared_ptr<const shm::Outbox>> RunLinks::make_outbox(
    const Plan& plan, const std::vector<Peer>& peers) const {
  std::vector<bool> share;
  for (const Peer& peer : peers) share.push_back(peer.linked() && peer.carrier == Carrier::shm);
  std::vector<shm::Outbox::Value> values;
  // A partition on a CPU writes the outbox itself.
  if (matches_device("cpu", plan.partitions[setup_.partition].device)) {
    for (ValueForMany& value : values_for_many(plan, setup_.partition, share))
      values.push_back({value.bytes, std::move(value.edges)});
  }
  if (values.empty()) return std::shared_ptr<const shm::Outbox>();
  return shm::Outbox::create(values);
}

Result<RunLinks::Links> RunLinks::open(DeviceHost& worker, HostedPartition& run,
                                       Deadline deadline) {
  LEAT_ASSIGN_OR_RETURN(std::vector<Peer> peers, find_peers(run));
  // Slots come before links, because a value may arrive as soon as its link is open. Slots for
  // values over shared memory are opened later, in the arena of their link, and those of wires in
  // memory of the device.
  std::vector<bool> over_tcp;
  for (uint32_t p = 0; p < peers.size(); ++p)
    over_tcp.push_back(peers[p].carrier == Carrier::tcp && !peers[p].wire && !is_here(p));
  LEAT_RETURN_IF_ERROR(worker.open_slots(run, over_tcp));
  // The outbox has to be there before the first link over memory, which shows it to its peer.
  LEAT_ASSIGN_OR_RETURN(outbox_, make_outbox(run.plan(), peers));
  Links links(peers.size());
  // All partitions open their links in ascending order of the peers, so no circle of them waits for
  // itself.
  for (uint32_t p = 0; p < peers.size(); ++p) {
    if (!peers[p].linked()) continue;
    const std::string doing = cat("opening the link to ", peers[p].setup.peer);
    auto made = link(p, peers[p], worker.device(run.device()), deadline);
    if (made.ok()) {
      links[p] = std::move(*made);
      continue;
    }
    // A cancelled run has its own cause, and the closed socket is only a consequence: no link is
    // blamed.
    const Status cancelled = cancelled_with();
    if (cancelled.ok()) tell_unopened(peers[p], made.status());
    const Status why = cancelled.ok() ? made.status().while_doing(doing) : cancelled;
    for (auto& link : links) {
      if (link) link->abort(why);
    }
    return why;
  }
  return links;
}

// A refusal by the peer is not a fault of the link.
void RunLinks::tell_unopened(const Peer& peer, const Status& why) const {
  const bool is_lost = why.code() == Code::deadline_exceeded || why.code() == Code::unavailable;
  if (is_lost && setup_.on_unopened)
    setup_.on_unopened({setup_.assembly, peer.setup.peer, LinkFault::lost, why.message()});
}

Result<std::unique_ptr<Link>> RunLinks::link(uint32_t partition, Peer& peer, Device& device,
                                             Deadline deadline) {
  return peer.wire ? link_devices(partition, peer, device, deadline)
                   : link_hosts(partition, peer, deadline);
}

// The inner link is made as any other, for announcements in place of values.
Result<std::unique_ptr<Link>> RunLinks::link_devices(uint32_t partition, Peer& peer, Device& device,
                                                     Deadline deadline) {
  direct::WireSetup wires;
  wires.kind = *peer.wire;
  wires.device = &device;
  wires.edges = static_cast<uint32_t>(peer.setup.slots->size());
  wires.dials = setup_.partition < partition;
  wires.peer = setup_.peers[partition].incarnation;
  wires.memory = setup_.wire_memory;
  LEAT_ASSIGN_OR_RETURN(auto maker, direct::DirectLinkMaker::create(peer.setup, std::move(wires)));
  peer.setup = maker.inner_setup();
  if (peer.carrier == Carrier::tcp) LEAT_RETURN_IF_ERROR(maker.open_inner_slots());
  LEAT_ASSIGN_OR_RETURN(auto inner, link_hosts(partition, peer, deadline));
  {
    std::lock_guard lock(mutex_);
    if (!cancelled_.ok()) return cancelled_;
    connecting_ = &maker;
  }
  auto link = maker.connect(std::move(inner), deadline);
  std::lock_guard lock(mutex_);
  connecting_ = nullptr;
  return link;
}

Result<std::unique_ptr<Link>> RunLinks::link_hosts(uint32_t partition, Peer& peer,
                                                   Deadline deadline) {
  if (peer.carrier == Carrier::shm) return link_memory(partition, peer, deadline);
  // The dialer opens the express socket first, then the bulk socket, and the other end takes them
  // by role.
  LEAT_ASSIGN_OR_RETURN(Wire express, wire(partition, SocketRole::express, deadline));
  Wire bulk;
  if (tcp::needs_bulk(peer.setup)) {
    LEAT_ASSIGN_OR_RETURN(bulk, wire(partition, SocketRole::bulk, deadline));
  }
  return tcp::make_link(threads_.reactor, std::move(express), std::move(bulk),
                        std::move(peer.setup));
}

Result<std::unique_ptr<Link>> RunLinks::link_memory(uint32_t partition, Peer& peer,
                                                    Deadline deadline) {
  LEAT_ASSIGN_OR_RETURN(Connection made, connection(partition, SocketRole::shm, deadline));
  LEAT_RETURN_IF_ERROR(begin_with(made.socket.get()));
  auto link = share_memory(std::move(made.socket), peer, deadline);
  settled();
  return link;
}

Status RunLinks::begin_with(int socket) {
  std::lock_guard lock(mutex_);
  if (!cancelled_.ok()) return cancelled_;
  // cancel() gets a descriptor of its own, because the link may close the socket while cancel()
  // runs.
  in_progress_ = Descriptor(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
  return {};
}

void RunLinks::settled() {
  std::lock_guard lock(mutex_);
  in_progress_ = Descriptor();
}

Result<Wire> RunLinks::wire(uint32_t partition, SocketRole role, Deadline deadline) {
  LEAT_ASSIGN_OR_RETURN(Connection made, connection(partition, role, deadline));
  Wire wire(std::move(made.socket));
  if ((made.hello.features & kSealed) == 0) return wire;
  LEAT_RETURN_IF_ERROR(begin_with(wire.get()));
  const bool dialed = made.hello.identity.source == setup_.partition;
  const Status sealed =
      wire.seal(dialed ? TlsSession::Side::client : TlsSession::Side::server,
                seal_key(setup_.key, made.hello), deadline, name_of(setup_.peers[partition]));
  settled();
  LEAT_RETURN_IF_ERROR(sealed);
  return wire;
}

Result<std::unique_ptr<Link>> RunLinks::share_memory(Descriptor socket, Peer& peer,
                                                     Deadline deadline) {
  // Both ends show their outboxes first. The arena then has slots only for the edges that no outbox
  // carries.
  LEAT_ASSIGN_OR_RETURN(auto shown,
                        shm::exchange_outboxes(socket.get(), outbox_.get(), peer.setup, deadline));
  LEAT_ASSIGN_OR_RETURN(shm::Arena arena, shm::Arena::create(shown.edges()));
  arena.open_slots(*peer.setup.slots);
  std::move(shown).open_slots(*peer.setup.slots);
  return shm::make_link(threads_.reactor, threads_.waiter, std::move(socket), std::move(arena),
                        std::move(peer.setup), deadline, outbox_);
}

// Returns a connected socket to the peer, in its role. Both ends know the identity of the other.
Result<Connection> RunLinks::connection(uint32_t partition, SocketRole role, Deadline deadline) {
  const Identity identity = identity_with(partition);
  LEAT_RETURN_IF_ERROR(cancelled_with());
  // The peer may begin to connect much later, so this end waits until the deadline of the run.
  if (identity.source != setup_.partition) {
    return threads_.arrivals.take(identity, role, deadline, [this] { return cancelled_with(); });
  }
  LinkHello hello;
  hello.identity = identity;
  hello.role = role;
  const Endpoint& peer = setup_.peers[partition];
  // Memory goes through the peer's own unix socket, and TCP through the data port of its worker.
  const std::string& address = role == SocketRole::shm ? peer.unix_address : peer.data_address;
  LEAT_ASSIGN_OR_RETURN(
      Connection connection,
      dial_again(address, hello, setup_.seal, setup_.key,
                 std::min(deadline, std::chrono::steady_clock::now() + kDialDeadline)));
  return connection;
}

}  // namespace leat
