// A link over TCP, or any other streams: an express socket for what is small and, if an edge is
// large, a bulk socket beside it, so that no small value ever waits behind a large one.
#pragma once

#include <memory>

#include "transport/io/descriptor.h"
#include "transport/io/reactor.h"
#include "transport/link.h"

namespace leat::tcp {

// Does a link of these edges need a bulk socket? Both ends find the same.
bool needs_bulk(const LinkSetup& setup);

// A link over connected sockets whose handshake is done. `bulk` is there if needs_bulk().
// `reactor` outlives the link. invalid_argument if a socket is missing.
Result<std::unique_ptr<Link>> make_link(Reactor& reactor, Descriptor express, Descriptor bulk,
                                        LinkSetup setup);

}  // namespace leat::tcp
