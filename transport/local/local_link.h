// A link within one process. A push copies the value into the consumer's slot, on the thread that
// pushes, so that the link needs no thread of its own.
#pragma once

#include <memory>
#include <utility>

#include "transport/link.h"

namespace leat::local {

// Two links, each the other's peer. Values and credits have arrived when the call that sends them
// returns. Either link may be destroyed first, and the other one fails then.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_links(LinkSetup a, LinkSetup b);

}  // namespace leat::local
