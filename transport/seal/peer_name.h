// The name in a certificate of a cluster, in the form of a SPIFFE ID.
#pragma once

#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// "spiffe://leat/worker/worker-2": the certificate of a process or person has exactly one such URI
// among its alternative names.
struct PeerName {
  // The trust domain: 1 to 32 lower-case letters, digits, '-', '_' and '.'.
  std::string cluster;
  // "master", or the name of a right (transport/rpc/grant.h) that a token may have.
  std::string role;
  // Of the person or the process: 1 to 64 letters, digits, '-', '_' and '.', the first of them a
  // letter or a digit.
  std::string name;

  friend bool operator==(const PeerName&, const PeerName&) = default;
};

// The URI of a name. REQUIRES: check() was ok.
std::string uri_of(const PeerName& name);
// Reads a URI. invalid_argument if it is not the URI of a name that check() accepts.
Result<PeerName> read_peer_name(std::string_view uri);
// invalid_argument, with the field, if the cluster or the name has other characters or more of
// them, or if the role is none. A role may have only lower-case letters.
Status check(const PeerName& name);

}  // namespace leat
