// The links of one run. A partition has one link to each partition that it sends to or receives
// from, for all edges in both directions.
//
// The partition with the lower number dials, the other one waits: over a unix socket if both
// runners are on one machine and may share memory, else through the data port of the peer's worker.
// Each opens its links in ascending order of the peers, so no circle of partitions waits for
// itself.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/runner/arrivals.h"
#include "scheduler/runtime/device_host.h"
#include "transport/endpoint.h"
#include "transport/io/reactor.h"
#include "transport/link.h"
#include "transport/shm/bell.h"
#include "transport/shm/outbox.h"

namespace leat {

enum class Carrier : uint8_t { tcp, shm };

// A link that failed by itself, or could not be opened.
struct FailedLink {
  uint64_t assembly = 0;
  std::string peer;  // its node
  LinkFault fault = LinkFault::lost;
  std::string how;
};

// Chooses the carrier between two runners; both ends come to the same result. `transport`: "auto"
// (shared memory where it is possible), "shm" or "tcp". A runner that may not share memory has no
// unix address. failed_precondition if no carrier is possible.
Result<Carrier> choose_carrier(std::string_view transport, const Endpoint& here,
                               const Endpoint& there);

// Threads: any; open() is called once.
class RunLinks {
 public:
  struct Setup {
    std::array<uint8_t, 16> cluster{};
    uint64_t assembly = 0;
    uint64_t run = 0;
    Sha256Digest plan{};          // of the whole plan
    uint32_t partition = 0;       // of this runner
    std::vector<Endpoint> peers;  // by partition of the plan, with this one
    std::string transport = "auto";
    RunKey key{};
    bool may_use_tcp = true;           // here; a peer that may not has no address
    std::function<void()> on_failure;  // as LinkSetup has it, for every link
    std::function<void(FailedLink)> on_unopened = nullptr;  // called by open() before it returns
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
  // peers the reason and close.
  Result<Links> open(DeviceHost& worker, HostedPartition& run, Deadline deadline);
  // Makes open() return `cause` soon, if it has not returned yet.
  void cancel(const Status& cause);

 private:
  struct Peer {
    LinkSetup setup;
    Carrier carrier = Carrier::tcp;
    bool linked() const { return !setup.incoming.empty() || !setup.outgoing.empty(); }
  };

  Result<std::vector<Peer>> find_peers(HostedPartition& run) const;
  Result<std::shared_ptr<const shm::Outbox>> make_outbox(const Plan& plan,
                                                         const std::vector<Peer>& peers) const;
  void tell_unopened(const Peer& peer, const Status& why) const;
  Result<std::unique_ptr<Link>> link(uint32_t partition, Peer& peer, Deadline deadline);
  Result<std::unique_ptr<Link>> link_memory(uint32_t partition, Peer& peer, Deadline deadline);
  Result<std::unique_ptr<Link>> share_memory(Descriptor socket, Peer& peer, Deadline deadline);
  Result<Descriptor> connection(uint32_t partition, SocketRole role, Deadline deadline);
  Identity identity_with(uint32_t partition) const;
  Status cancelled_with() const;

  const Setup setup_;
  const Threads threads_;
  mutable std::mutex mutex_;
  Status cancelled_;
  std::shared_ptr<const shm::Outbox> outbox_;  // null: no value goes to several peers over memory
  Descriptor in_progress_;  // a second descriptor of the socket that waits for the peer's memory
};

}  // namespace leat
