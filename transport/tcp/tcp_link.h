// A link over TCP, or over any other streams: an express socket for small values and, if an edge is
// large, a bulk socket beside it. No small value ever waits behind a large one.
#pragma once

#include <memory>

#include "transport/io/reactor.h"
#include "transport/io/wire.h"
#include "transport/link.h"

namespace leat::tcp {

// Whether a link of these edges needs a bulk socket. Both ends find the same answer.
bool needs_bulk(const LinkSetup& setup);

// Makes a link over connected sockets whose handshake is done. `bulk` is open if needs_bulk().
// `reactor` outlives the link. invalid_argument if a socket is missing.
Result<std::unique_ptr<Link>> make_link(Reactor& reactor, Wire express, Wire bulk,
                                        LinkSetup setup);

}  // namespace leat::tcp
