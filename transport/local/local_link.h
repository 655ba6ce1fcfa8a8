// A link within one process: a push is one copy into the consumer's slot, on the pusher's thread.
#pragma once

#include <memory>
#include <utility>

#include "transport/link.h"

namespace leat::local {

// Two links, each the other's peer. Values and credits arrive before the call that sends them
// returns. Either may go first: the other fails then.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_links(LinkSetup a, LinkSetup b);

}  // namespace leat::local
