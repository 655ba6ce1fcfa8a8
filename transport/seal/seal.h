// Which connections have TLS: the policy of one end.
#pragma once

#include <cstdint>

namespace leat {

// The two ends of a connection may see different addresses, for instance behind a forwarded port.
// So a connection is sealed as soon as one end requires it.
enum class Seal : uint8_t {
  // No connection: the key `insecure_plaintext`.
  never = 0,
  // Those whose other end is not on this machine. The default.
  beyond_loopback,
  // All over TCP: the key `seal_loopback`.
  always,
};

// Whether the policy requires TLS for a connection over loopback, or over a network.
constexpr bool is_required(Seal seal, bool loopback) {
  return seal == Seal::always || (seal == Seal::beyond_loopback && !loopback);
}

}  // namespace leat
