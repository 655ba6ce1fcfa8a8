// How the control plane connects. Includes kj: for .cc files.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

namespace leat {

// What is lost of a connection's first packets is sent again after 1, 3, 7 s by the kernel. A
// network that was gone for a while is back sooner than that.
inline constexpr auto kDialAgain = 300 * kj::MILLISECONDS;

// The first connection that comes about of those that are tried, one more each kDialAgain for as
// long as there is no answer. An answer that is none ("Connection refused") ends it. The others are
// given up then, and all with the promise. `address` and `timer` outlive it.
kj::Promise<kj::Own<kj::AsyncIoStream>> dial(kj::NetworkAddress& address, kj::Timer& timer);

}  // namespace leat
