// The links of one run. A partition has one link to each partition that it sends to or receives
// from on another runner, for all edges in both directions.
//
// The partition with the lower number dials, the other one waits: over a unix socket if both
// runners are on one machine and may share memory, else through the data port of the peer's worker.
// Each opens its links in ascending order of the peers, so no circle of partitions waits for
// itself.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/runner/arrivals.h"
#include "scheduler/runtime/device_host.h"
#include "transport/direct/direct_link.h"
#include "transport/endpoint.h"
#include "transport/io/reactor.h"
#include "transport/io/wire.h"
#include "transport/link.h"
#include "transport/shm/bell.h"
#include "transport/shm/outbox.h"

namespace leat {

// tcp: one or two sockets; shm: an arena of shared memory, which the peers exchange over a unix
// socket.
enum class Carrier : uint8_t { tcp, shm };

// A link that failed by itself, or could not be opened. The master uses the report to decide which
// worker leaves the job, if one has to.
struct FailedLink {
  // The number of the assembly of the run.
  uint64_t assembly = 0;
  // The node of the peer, or "task N" if it has no node.
  std::string peer;
  LinkFault fault = LinkFault::lost;
  // The link's error, for people.
  std::string how;
};

// Chooses the carrier between two runners; both ends come to the same result. `transport`: "auto"
// (shared memory where it is possible), "shm" or "tcp". A runner that may not share memory has no
// unix address. failed_precondition if no carrier is possible.
Result<Carrier> choose_carrier(std::string_view transport, const Endpoint& here,
                               const Endpoint& there);

// HostedRun makes one for each run in connect() and keeps it until the run is destroyed. The links
// that open() returns belong to the caller and do not need the object.
// Threads: any; open() is called once.
class RunLinks {
 public:
  struct Setup {
    // The values of the identity that both ends compare when they greet each other.
    std::array<uint8_t, 16> cluster{};
    uint64_t assembly = 0;
    uint64_t run = 0;
    // The digest of the whole plan, so that runners with different plans refuse each other.
    Sha256Digest plan{};
    uint32_t partition = 0;  // of this runner
    // By partition of the plan, this one included.
    std::vector<Endpoint> peers;
    // By partition of the plan: the others of this runner, which need no link. Their slots are
    // open.
    std::vector<bool> here;
    // "auto", "shm" or "tcp": see choose_carrier().
    std::string transport = "auto";
    // The key of the assembly.
    RunKey key{};
    // Which peers over TCP it dials with TLS. A peer that dials chooses for itself, and its
    // worker's listener has checked it.
    Seal seal = Seal::beyond_loopback;
    // Whether this runner may use TCP. A peer that may not has no address.
    bool may_use_tcp = true;
    // The kinds of wires that this runner may use, and the memory of those that have ended.
    std::vector<WireKind> gpu_wires;
    std::shared_ptr<direct::WireMemory> wire_memory;
    // As in LinkSetup, for every link. Any thread may call it, and it must not block.
    std::function<void()> on_failure;
    // Called by open() before it returns, for a link that could not be opened because the peer did
    // not answer. A peer that refuses is no such link. May be empty.
    std::function<void(FailedLink)> on_unopened = nullptr;
  };
  // The threads that links use. All outlive the links.
  struct Threads {
    Reactor& reactor;
    shm::Waiter& waiter;
    Arrivals& arrivals;
  };
  // By partition of the plan; null where no edge goes either way.
  using Links = std::vector<std::unique_ptr<Link>>;

  RunLinks(Setup setup, Threads threads) : setup_(std::move(setup)), threads_(threads) {}

  // Opens the run's slots, then its links. On failure the links that are open already tell their
  // peers the reason and close. Blocks until all links are open, at most until `deadline`; dials
  // are given up after 2 s. deadline_exceeded if a peer does not dial in time; unavailable if one
  // cannot be reached; failed_precondition if there is no carrier to a peer, or a peer refuses this
  // runner; the cause after cancel().
  Result<Links> open(DeviceHost& worker, HostedPartition& run, Deadline deadline);
  // Makes open() return `cause` soon, if it has not returned yet. The first cause stays. Does not
  // block.
  void cancel(const Status& cause);

 private:
  // A partition of the plan, as a neighbour of this one.
  struct Peer {
    LinkSetup setup;
    Carrier carrier = Carrier::tcp;
    // Its values go from device to device, and over the carrier only what announces them.
    std::optional<WireKind> wire = std::nullopt;
    bool linked() const { return !setup.incoming.empty() || !setup.outgoing.empty(); }
  };

  // True for the partitions of this runner.
  bool is_here(uint32_t partition) const;
  // Sorts the plan's edges by peer, and chooses the carriers and wires.
  Result<std::vector<Peer>> find_peers(HostedPartition& run) const;
  // Memory for values that several peers read, so that each is written once. Null if there are
  // none.
  Result<std::shared_ptr<const shm::Outbox>> make_outbox(const Plan& plan,
                                                         const std::vector<Peer>& peers) const;
  // Reports a link that could not be opened.
  void tell_unopened(const Peer& peer, const Status& why) const;
  // Opens one link over the peer's carrier, and the wires of `device` beside it.
  Result<std::unique_ptr<Link>> link(uint32_t partition, Peer& peer, Device& device,
                                     Deadline deadline);
  Result<std::unique_ptr<Link>> link_devices(uint32_t partition, Peer& peer, Device& device,
                                             Deadline deadline);
  Result<std::unique_ptr<Link>> link_hosts(uint32_t partition, Peer& peer, Deadline deadline);
  Result<std::unique_ptr<Link>> link_memory(uint32_t partition, Peer& peer, Deadline deadline);
  Result<std::unique_ptr<Link>> share_memory(Descriptor socket, Peer& peer, Deadline deadline);
  // Dials the peer, or waits for its connection if it has the lower number.
  Result<Connection> connection(uint32_t partition, SocketRole role, Deadline deadline);
  // The same, and with TLS if the dialer asked for it. Both ends do it when they come to this link,
  // in the order of open().
  Result<Wire> wire(uint32_t partition, SocketRole role, Deadline deadline);
  // Lets cancel() end what is done with the socket, until settled(). The cause if it was cancelled.
  Status begin_with(int socket);
  void settled();
  // The identity of the link to that partition, which is equal at both ends.
  Identity identity_with(uint32_t partition) const;
  // The cause of cancel(); ok before.
  Status cancelled_with() const;

  const Setup setup_;
  const Threads threads_;
  mutable std::mutex mutex_;
  Status cancelled_;
  std::shared_ptr<const shm::Outbox> outbox_;  // null: no value goes to several peers over memory
  Descriptor in_progress_;  // a second descriptor of the socket that waits for the peer
  direct::DirectLinkMaker* connecting_ = nullptr;  // the one whose connect() is under way
};

}  // namespace leat
