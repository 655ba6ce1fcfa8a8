// A link over shared memory, between two processes of one machine.
//
// A push writes the value into the receiver's slot, publishes its number and rings the receiver's
// bell. A producer that writes in place() only publishes and rings. Credits go back in the same
// way. A unix socket beside the memory carries aborts, and closes when the peer dies.
#pragma once

#include <memory>

#include "transport/io/descriptor.h"
#include "transport/io/reactor.h"
#include "transport/link.h"
#include "transport/shm/arena.h"
#include "transport/shm/bell.h"
#include "transport/shm/outbox.h"

namespace leat::shm {

// Makes a link over a connected unix socket whose handshake is done: exchanges arenas and bells
// with the peer, which calls the same. Each end sends the word "LEATSHM1" with two descriptors, its
// arena and its bell.
//
// `arena` is made for setup.incoming, and its slots are open in the table. With `outbox`, the edges
// in it have their slots there: the outboxes were exchanged before, and edges in the peer's outbox
// are without slots in `arena`. `reactor` and `waiter` outlive the link. invalid_argument if the
// peer's memory is not for these edges, deadline_exceeded if it sends none.
Result<std::unique_ptr<Link>> make_link(Reactor& reactor, Waiter& waiter, Descriptor socket,
                                        Arena arena, LinkSetup setup, Deadline deadline,
                                        std::shared_ptr<const Outbox> outbox = nullptr);

}  // namespace leat::shm
