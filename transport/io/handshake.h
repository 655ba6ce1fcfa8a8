// Makes authenticated connections from the dialing end; listener.h accepts them. An address is
// "127.0.0.1:4711", "[::1]:4711" or "unix:/path"; names are resolved before they become addresses.
//
// All calls block up to their deadline.
// Threads: any.
#pragma once

#include <chrono>
#include <string>

#include "transport/io/descriptor.h"
#include "transport/io/identity.h"

namespace leat {

// A connected, non-blocking socket and its dialer's hello. Both ends have proved that they know the
// run's key.
struct Connection {
  Descriptor socket;
  LinkHello hello;
};

// Options of a TCP socket of the data plane.
struct SocketOptions {
  // The name for TCP_CONGESTION. Empty means the system's own, except over loopback, which uses
  // reno: BBR's pacing costs there and gains nothing.
  std::string congestion;
  // The connection is dead when the other end's system has acknowledged nothing for this long. The
  // kernel counts from the first repetition, 0.2 s after the first sending. The packet has been
  // sent four times by then (at once, after 0.2, 0.6 and 1.4 s); one more second would not make it
  // five.
  std::chrono::milliseconds user_timeout{1600};
};

// Connects to a listener and shakes hands. unavailable if nothing listens there or the listener is
// busy, failed_precondition if it refuses (the message names the field), deadline_exceeded if it
// takes too long. dial() fills in the hello's nonce.
Result<Connection> dial(const std::string& address, LinkHello hello, const RunKey& key,
                        Deadline deadline, const SocketOptions& options = {});

// The two halves of dial(): the handshake over a socket that is connected, and the connection.
Result<Connection> greet(Descriptor socket, LinkHello hello, const RunKey& key, Deadline deadline,
                         std::string_view peer);
Result<Descriptor> connect_socket(const std::string& address, Deadline deadline,
                                  const SocketOptions& options = {});

// A listening socket and its address, with the port that the system chose if the port was 0.
struct ListeningSocket {
  Descriptor socket;
  std::string address;
};
// Binds and listens. unavailable or resource_exhausted if the system refuses, invalid_argument if
// the address is none.
Result<ListeningSocket> listen_socket(const std::string& address);

// Sets the options of a connected TCP socket; does nothing for other sockets. invalid_argument for
// a congestion control that the system does not have.
Status apply(const SocketOptions& options, int socket);

// True if the other end of a connected socket is on this machine: a unix socket, or one over
// loopback.
bool is_local(int socket);

}  // namespace leat
