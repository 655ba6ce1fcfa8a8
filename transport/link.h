// A link: one peer pair of a run, all its edges in both directions. What a worker holds for each
// other partition that it sends to or receives from.
//
// Values that come in land in the slots of the table that the link was made with, and raise their
// `arrived`; when the executor raises an edge's `retired`, the link tells the peer. The executor
// sees only the Channel: it pushes, waits on credit() and on the table.
//
// Failure is sticky, the first one stays: the peer is gone, it broke the protocol, bytes arrived
// damaged, it took nothing for too long, or the run was aborted on either side. All that waits on
// the link's edges then ends with that status, which names the peer and what was awaited from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "transport/channel.h"
#include "transport/link_fault.h"
#include "transport/slots.h"

namespace leat {

struct LinkEdge {
  uint32_t edge = 0;
  uint64_t bytes = 0;  // of each value; 0 for a token
};

struct LinkSetup {
  std::string self, peer;                    // for messages: "worker-0"
  std::vector<LinkEdge> incoming, outgoing;  // ascending; the incoming ones are open in `slots`
  SlotTable* slots = nullptr;                // outlives the link
  // Called once, when all that waited on the link has ended; by its destructor, too. On any thread.
  std::function<void()> on_failure = nullptr;
  // How long a push may wait while the peer takes not one byte: then the link fails.
  std::chrono::milliseconds stall = std::chrono::seconds(10);
};

// What has gone over a link so far, pings aside.
struct LinkCounters {
  uint64_t frames_sent = 0, frames_received = 0;  // over shared memory, rings of the bell count
  uint64_t bytes_sent = 0, bytes_received = 0;    // headers included
  uint64_t values_sent = 0, values_received = 0;
  uint64_t late_values = 0;  // received for a turn that was already closed, and dropped
};

// Threads: as Channel says; ping() from any thread but the transport's own. A call that fails may
// wait for the transport's thread to say why: no caller holds a lock that a timeline's callback
// takes. Destroyed by a thread that is not the transport's, when nobody pushes or retires any more.
// What still waits on the link's edges then ends with cancelled; the peer sees the link close.
class Link : public Channel {
 public:
  virtual const std::string& peer() const = 0;
  // ok while the link works.
  virtual Status status() const = 0;
  // Of status(), if nobody has asked for it.
  virtual LinkFault fault() const { return LinkFault::none; }
  virtual LinkCounters counters() const = 0;
  // "worker-1 awaits edge 7 turn 3 from worker-0": the values that are next, for people; "" if
  // nothing comes in over this link.
  virtual std::string awaits() const = 0;
};

}  // namespace leat
