// A link over shared memory, between two processes of one host.
//
// A push writes the value into the receiver's slot, publishes its number and rings the receiver's
// bell; a producer that writes in place() only publishes. Credits go back the same way. A unix
// socket beside it carries pings and aborts, and closes when the peer dies.
#pragma once

#include <memory>

#include "transport/io/descriptor.h"
#include "transport/io/reactor.h"
#include "transport/link.h"
#include "transport/shm/arena.h"
#include "transport/shm/bell.h"
#include "transport/shm/outbox.h"

namespace leat::shm {

// A link over a connected unix socket whose handshake is done: exchanges arenas and bells with the
// peer, who calls the same. `arena` is for setup.incoming, its slots open in the table. With
// `outbox`, those edges that are in it have their slots there: outboxes were exchanged before, and
// edges that are in the peer's are without slots in the arena. `reactor` and `waiter` outlive the
// link. invalid_argument if what the peer gives is not for these edges, deadline_exceeded if it
// gives nothing.
Result<std::unique_ptr<Link>> make_link(Reactor& reactor, Waiter& waiter, Descriptor socket,
                                        Arena arena, LinkSetup setup, Deadline deadline,
                                        std::shared_ptr<const Outbox> outbox = nullptr);

}  // namespace leat::shm
