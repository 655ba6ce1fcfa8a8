// Making authenticated connections: dialing here, accepting in listener.h. An address is
// "127.0.0.1:4711", "[::1]:4711" or "unix:/path"; names are looked up by those who write addresses.
#pragma once

#include <chrono>
#include <string>

#include "transport/io/descriptor.h"
#include "transport/io/identity.h"

namespace leat {

// A connected socket, non-blocking, and what its dialer said; both ends have proved that they know
// the run's key.
struct Connection {
  Descriptor socket;
  LinkHello hello;
};

struct SocketOptions {
  // TCP_CONGESTION; empty: the system's, but reno over loopback, where BBR's pacing only costs.
  std::string congestion;
  // For so long the other end's system may leave something unacknowledged before the connection is
  // dead; the kernel counts from the first repetition, after 0.2 s. It was sent four times by then
  // (at once, after 0.2, 0.6 and 1.4 s), and a second more would not make it five.
  std::chrono::milliseconds user_timeout{1600};
};

// Connects to a listener and shakes hands. unavailable if nobody listens, failed_precondition if it
// refuses (the message names the field), deadline_exceeded if it takes too long. The hello's nonce
// is filled in.
Result<Connection> dial(const std::string& address, LinkHello hello, const RunKey& key,
                        Deadline deadline, const SocketOptions& options = {});

// The parts, for a socket that is connected already.
Result<Connection> greet(Descriptor socket, LinkHello hello, const RunKey& key, Deadline deadline,
                         std::string_view peer);
Result<Descriptor> connect_socket(const std::string& address, Deadline deadline,
                                  const SocketOptions& options = {});

// A listening socket and, if the port was 0, the address that it got.
struct ListeningSocket {
  Descriptor socket;
  std::string address;
};
Result<ListeningSocket> listen_socket(const std::string& address);

// Options of a connected TCP socket; nothing to do for others.
Status apply(const SocketOptions& options, int socket);

}  // namespace leat
