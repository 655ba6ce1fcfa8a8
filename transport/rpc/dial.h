// Connects the control plane over networks that lose packets. Includes KJ: for .cc files.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

namespace leat {

// When a connection's first packet is lost, the kernel sends it again after 1, 3 and 7 s. A network
// that was gone for a moment is back sooner than that, so dial() tries again itself.
inline constexpr auto kDialAgain = 300 * kj::MILLISECONDS;

// Starts one more connection after each kDialAgain without an answer, and returns the first that is
// made. An answer that refuses ("Connection refused") ends the attempt. Then the others are given
// up, as all are when the promise is dropped. `address` and `timer` outlive the promise.
kj::Promise<kj::Own<kj::AsyncIoStream>> dial(kj::NetworkAddress& address, kj::Timer& timer);

}  // namespace leat
