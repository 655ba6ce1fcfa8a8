// A link: the connection of one pair of partitions of a run, with all their edges in both
// directions. A partition holds one link for each other partition that it sends to or receives
// from.
//
// Values that come in land in the slots of the table that the link was made with, and raise their
// `arrived`. When the executor raises the `retired` of an edge, the link tells the peer. The
// executor itself sees only the Channel: it pushes, and waits on credit() and on the table.
//
// Failure is sticky, and the first one stays: the peer is gone, it broke the protocol, bytes
// arrived damaged, it took nothing for too long, or the run was aborted on either side. Every wait
// on the link's edges then ends with that status, which names the peer and the value that was
// awaited from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "transport/channel.h"
#include "transport/link_counters.h"
#include "transport/link_fault.h"
#include "transport/slots.h"

namespace leat {

// An edge of the plan that crosses the link.
struct LinkEdge {
  // Its index in the plan.
  uint32_t edge = 0;
  // The size of each value; 0 for a token, which only says that something has happened.
  uint64_t bytes = 0;
};

// Everything that a link is made from.
struct LinkSetup {
  // The names of the two partitions in messages: "worker-0".
  std::string self, peer;
  // By ascending index. The incoming ones are open in `slots`.
  std::vector<LinkEdge> incoming, outgoing;
  // Outlives the link.
  SlotTable* slots = nullptr;
  // Called once, after every wait on the link has ended, at the latest by the link's destructor.
  // Threads: any.
  std::function<void()> on_failure = nullptr;
  // A push that waits this long while the peer takes not one byte fails the link.
  std::chrono::milliseconds stall = std::chrono::seconds(10);
};

// One end of the connection. Its owner destroys it on a thread that is not the transport's, when no
// thread pushes or retires any more. Every wait on its edges that is left then ends with cancelled,
// and the peer sees the link close.
//
// Threads: as Channel says. A call that fails may wait until the transport's thread knows why, so
// no caller holds a lock that the callback of a timeline takes.
class Link : public Channel {
 public:
  // LinkSetup::peer.
  virtual const std::string& peer() const = 0;
  // Ok while the link works, then its failure.
  virtual Status status() const = 0;
  // The kind of the failure in status(), if the link failed by itself; none otherwise.
  virtual LinkFault fault() const { return LinkFault::none; }
  // The traffic so far.
  virtual LinkCounters counters() const = 0;
  // The next value that has to come, for people: "worker-1 awaits edge 7 turn 3 from worker-0". ""
  // if nothing comes in over this link.
  virtual std::string awaits() const = 0;
};

}  // namespace leat
